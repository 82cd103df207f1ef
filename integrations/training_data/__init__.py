"""Decided lists as data to train on: pairs, chosen texts, rankings and labels in the forms that TRL documents."""
