package meta

import (
	"encoding/hex"
	"fmt"
)

// Random ids. They name things in keys, associated data and the database, and are never used
// again. Names occur in the catalogue only.
type (
	DatabaseID [16]byte
	TableID    [16]byte
	TenantID   [16]byte
	ColumnID   [4]byte // unique within its table
)

func (id DatabaseID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(id[:])), nil }

func (id TableID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(id[:])), nil }

func (id ColumnID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(id[:])), nil }

func (id *DatabaseID) UnmarshalText(text []byte) error { return Unhex(id[:], text) }

func (id *TableID) UnmarshalText(text []byte) error { return Unhex(id[:], text) }

func (id *ColumnID) UnmarshalText(text []byte) error { return Unhex(id[:], text) }

func (id TenantID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(id[:])), nil }

func (id *TenantID) UnmarshalText(text []byte) error { return Unhex(id[:], text) }

// Unhex reads an id of the right length.
func Unhex(dst, text []byte) error {
	if hex.DecodedLen(len(text)) != len(dst) {
		return fmt.Errorf("an id has %d hex digits, need %d", len(text), 2*len(dst))
	}
	_, err := hex.Decode(dst, text)
	return err
}

// A ColumnRef names a column of the database.
type ColumnRef struct {
	Table  TableID  `json:"table"`
	Column ColumnID `json:"column"`
}
