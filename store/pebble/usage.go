package pebble

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
)

// DiskUsage returns about how many bytes a family takes in the tables on the disk. Writes that
// are only in the log are not counted; they get into tables at the latest when the directory is
// opened again.
func (db *DB) DiskUsage(ctx context.Context, family string) (uint64, error) {
	if err := db.enterFor(ctx); err != nil {
		return 0, err
	}
	defer db.leave()
	e := db.families[family]
	if e == nil {
		return 0, fmt.Errorf("pebble: %w: %s", driver.ErrNoFamily, family)
	}
	n, err := db.eng.EstimateDiskUsage(layout.AppendFamily(nil, e.id), layout.AppendFamily(nil, e.id+1))
	if err != nil {
		return 0, fmt.Errorf("pebble: size of family %s: %w", family, err)
	}
	return n, nil
}
