package hooks

// Connected marks an error of a database that was connected to: by a method Connected, which says so.
func Connected(err error) error { return connected{err} }

type connected struct{ error }

func (c connected) Unwrap() error { return c.error }
func (connected) Connected() bool { return true }
