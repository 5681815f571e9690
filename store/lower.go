package store

import (
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// Names of the layers below, as this package uses them.

type (
	alteration = meta.Alteration
	bound      = value.Bound
	field      = meta.Spec
)

const (
	deterministic = meta.Deterministic
	hashed        = meta.Hashed
	ofColumns     = meta.OfColumns
	ofDatabase    = meta.OfDatabase
	ordered       = meta.Ordered
	plain         = meta.Plain
	randomised    = meta.Randomised
	tieBreaker    = meta.TieBreaker
)

var newTableMeta = meta.New
