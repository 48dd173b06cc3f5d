"""table-time: seconds to keep hash functions and hash table up to date, by the paper's model and with a live table."""
