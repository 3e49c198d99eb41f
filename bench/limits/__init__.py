"""What a bare database makes of the same bytes: the raw limits that `store.py` compares with."""
