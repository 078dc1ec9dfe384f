"""The report of a conversion: a JSON document, and the forms that people read.

`document` describes the JSON document (schema.json), and reads and checks it. All other
forms are made from the document only.
"""
