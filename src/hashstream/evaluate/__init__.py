"""JUDGE: metrics of retrieval, protocols, results."""
