#include "cpu.h"
HS_API int hs_hamming_abi(void) { return 1; }
