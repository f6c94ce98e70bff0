"""The provider ``claude``.

``provider`` runs the program, ``invocation`` says how it is started, ``stream`` reads what it writes, and ``failures``
says what its errors mean.
"""
