"""What a tool's description lacks for a model to use it well."""
