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
	if err := contextError(ctx); err != nil {
		return 0, err
	}
	db.dirMu.Lock()
	e := db.families[family]
	db.dirMu.Unlock()
	if e == nil {
		return 0, fmt.Errorf("pebble: %w: %s", driver.ErrNoFamily, family)
	}
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.leave()
	n, err := db.eng.EstimateDiskUsage(layout.AppendFamily(nil, e.id), layout.AppendFamily(nil, e.id+1))
	if err != nil {
		return 0, fmt.Errorf("pebble: size of family %s: %w", family, err)
	}
	return n, nil
}
