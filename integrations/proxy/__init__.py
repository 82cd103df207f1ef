"""A server that speaks OpenAI's protocol and answers with the best of many candidates of another such server.

Each request goes to the server upstream n times; a decoder chooses one of the texts, which is the answer, unchanged.
"""
