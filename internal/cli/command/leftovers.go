package command

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

var tableFamily = regexp.MustCompile(`^[txi]([0-9a-f]{32})$`)

// LeftOvers returns the families that no table has, by the id of the table that had them. If all are of what is known, the
// catalogue is not read again.
func LeftOvers(ctx context.Context, c *cli.Call, known inspect.Database) (map[string][]string, error) {
	names, err := c.DB.Families(ctx)
	if err != nil {
		return nil, err
	}
	left := make(map[string][]string)
	for _, name := range names {
		if id := tableFamily.FindStringSubmatch(name); id != nil {
			left[id[1]] = append(left[id[1]], name)
		}
	}
	leave := func(d inspect.Database) {
		delete(left, d.ID) // of indexes that columns of several tables share
		for _, t := range d.Tables {
			delete(left, t.ID)
		}
	}
	if leave(known); len(left) == 0 {
		return nil, nil
	}
	d, err := c.Store.Describe(ctx) // after the families, so that a table which was made since is known
	if err != nil {
		return nil, err
	}
	leave(d)
	return left, nil
}

// WarnOfLeftOvers names the data of tables that are not there, below a list of those that are.
func WarnOfLeftOvers(ctx context.Context, c *cli.Call, known inspect.Database) error {
	left, err := LeftOvers(ctx, c, known)
	if len(left) == 0 {
		return err
	}
	ids := slices.Sorted(maps.Keys(left))
	what, drops := "a table that is", fmt.Sprintf("'rangecrypt table drop --id %s' drops it", ids[0])
	if len(ids) > 1 {
		what, drops = "tables that are", "'rangecrypt table drop --id ID' drops that of one; the ids are "+strings.Join(ids, ", ")
	}
	c.Warn("the store has data of %s not among these, as after a drop that was interrupted, while a table is made, or where the catalogue is from a backup that is older; unless it is from a backup, %s", what, drops)
	return nil
}
