"""What the pages of docs/ say that follows from the code: keys, columns, verbs, codes, formats.

`python -m pipelines.documentation` writes it into the pages, between `<!-- generated: NAME -->` and
`<!-- end -->`; what people wrote around it stays as it is.
"""
