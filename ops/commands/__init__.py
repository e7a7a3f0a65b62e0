"""One module a verb: parse, build settings, call one function."""
