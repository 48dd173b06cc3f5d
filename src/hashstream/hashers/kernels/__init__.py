"""The compiled inner loops of the methods, each with a twin in NumPy. A C compiler is optional.

Every file here has the same three parts, in this order:

1. binding: `compiled_<name>` checks its arguments and calls C through ctypes, which releases the GIL;
2. twin: `twin_<name>`, with the same signature, computes the same with NumPy. It is what to read, and what tests
   compare the binding with;
3. choice: `<name>`, which methods call: the binding where `KERNEL` is not empty, and the twin otherwise (`choice`).
"""
