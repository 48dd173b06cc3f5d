"""The client: tables of a service with the methods of `HashTable`. It needs nothing but the library."""

from hashstream.serve.client.async_client import AsyncClient
from hashstream.serve.client.client import Client
from hashstream.serve.client.remote_table import RemoteTable

__all__ = ["AsyncClient", "Client", "RemoteTable"]
