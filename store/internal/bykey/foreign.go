package bykey

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// KeyOf returns the key parts of a row.
func KeyOf(t *engine.Engine, row rowcodec.RowValues) rowcodec.RowValues {
	key := make(rowcodec.RowValues, len(t.Parts))
	for _, c := range t.Parts {
		key[c.Name] = row[c.Name]
	}
	return key
}

// Takes returns an error, which has no value, unless the table can have the key of a row. It touches no database.
func Takes(t *engine.Engine, row rowcodec.RowValues) error { return takes(t, t.NewRecord(), row) }

// takes also sets the key parts of a record.
func takes(t *engine.Engine, r *rowcodec.Record, row rowcodec.RowValues) error {
	if err := t.CheckKey(r, row); err != nil {
		return err
	}
	for i, c := range t.Parts {
		var err error
		switch {
		case c.Type.Unordered(r.Values[i]):
			err = value.ErrNaN
		case c.Encryption == meta.Ordered && c.Text == nil:
			_, err = c.Type.Code(r.Values[i])
		}
		if err != nil {
			return fmt.Errorf("key part %q: %w", c.Name, err)
		}
	}
	return nil
}

// TakesFrom is Takes for a row of a source that may tell more keys apart than the table does: two of its rows would be one.
func TakesFrom(t *engine.Engine, row rowcodec.RowValues) error {
	for _, c := range t.Parts {
		var f float64
		switch v := row[c.Name].(type) {
		case float32:
			f = float64(v)
		case float64:
			f = v
		}
		if f == 0 && math.Signbit(f) {
			return fmt.Errorf("%w: key part %q is the negative zero, which the table takes for zero", ope.ErrDomain, c.Name)
		}
	}
	return Takes(t, row)
}

// Place writes the key of a row in the clear, where it has no hash since the table does not take it.
func Place(t *engine.Engine, row rowcodec.RowValues) string {
	parts := make([]string, len(t.Parts))
	for i, c := range t.Parts {
		format := "%s = %v"
		switch row[c.Name].(type) {
		case string:
			format = "%s = %q"
		case []byte, [16]byte:
			format = "%s = %x"
		}
		parts[i] = fmt.Sprintf(format, c.Name, row[c.Name])
	}
	return strings.Join(parts, ", ")
}

// NamedIn returns rows that have the key parts of others only, as values of the types of the table. An error is [fault.ErrUnfit], too.
func NamedIn(t *engine.Engine, rows []rowcodec.RowValues) ([]rowcodec.RowValues, error) {
	keys := make([]rowcodec.RowValues, len(rows))
	for i, row := range rows {
		r := t.NewRecord()
		err := takes(t, r, row)
		if err == nil {
			err = CheckDrawn(t.View, r)
		}
		if err != nil {
			return nil, &fault.RowError{Index: i, Err: fault.Unfit(err)}
		}
		r.Values = value.KeepAll(r.Values)
		keys[i] = t.Row(r, nil) // which has no other values
	}
	return keys, nil
}

// PutAgain returns a row as one that may be put again where rows are never replaced: what is found by the key parts of the source has to
// be found here.
func PutAgain(t *engine.Engine, row rowcodec.RowValues) rowcodec.RowValues {
	last := t.Parts[len(t.Parts)-1].Name
	tie, is := row[last].([16]byte)
	if !t.Meta.AppendOnly() || !is {
		return row
	}
	row = maps.Clone(row)
	row[last] = rowcodec.LoadTie(tie)
	return row
}
