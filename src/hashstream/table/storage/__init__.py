"""Where a table's states are kept: the contract `Storage`, in memory, and in a folder."""
