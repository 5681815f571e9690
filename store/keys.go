package store

import (
	"encoding/hex"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
)

// keys is the hierarchy of keys below the master key. Every key has a purpose of its own, named
// by labels; ids in labels are random and never used again, names are not in them, so that
// renaming changes no key.
//
//	master -> database (random id) -> table (random id) -> column or key part (random id) -> purpose
type keys struct{ database ope.Key }

func newKeys(master ope.Key, id databaseID) keys {
	return keys{master.Derive("database", hex.EncodeToString(id[:]))}
}

func (k keys) table(id tableID) tableKeys {
	return tableKeys{k.database.Derive("table", hex.EncodeToString(id[:]))}
}

type tableKeys struct{ table ope.Key }

func (k tableKeys) column(id columnID) ope.Key {
	return k.table.Derive("column", hex.EncodeToString(id[:]))
}

// The purposes that a column's key is derived for.
const (
	purposeCell  = "cell"  // sealing values
	purposeOrder = "order" // the order-preserving scheme
	purposeToken = "token" // pseudo-random tokens of values, for equality
)

func sealer(key ope.Key) *seal.Sealer {
	s, err := seal.New(key.Secret())
	if err != nil {
		panic("store: " + err.Error()) // derived keys have the right length
	}
	return s
}
