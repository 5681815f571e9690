package cqlsource

// Application is for tests that see this package as programs do.
var Application = application
