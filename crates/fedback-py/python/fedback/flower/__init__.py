"""fedback on a Flower federation: the same trajectory, bit for bit, on machines that are apart.

`server_app` and `client_app` are what `flwr run` starts; `docs/how-to/deploy.md` shows how,
`docs/reference/flower.md` lists every setting and every field that travels.
"""
