"""SERVE: tables over HTTP, a page where people teach the search, and the client.

`create_app` makes an ASGI application of the tables of a folder (extra `hashstream[serve]`), `server.run` listens.
`Client` speaks to such a service from another process, and needs nothing but the library.
"""
