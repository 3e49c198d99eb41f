"""A public set of function calls, and what models make of such calls when they write them down."""
