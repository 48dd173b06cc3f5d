"""A table as Parquet files that other programs read, and back."""
