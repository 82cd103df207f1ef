"""Requests and answers in the forms of other protocols: Responses, Messages, scores."""
