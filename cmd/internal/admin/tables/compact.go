package tables

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
)

// elsewhereCompacted says what to do in place of this command.
var elsewhereCompacted = map[string]string{
	"cassandra": "on each node, run 'nodetool flush KEYSPACE' and 'nodetool compact KEYSPACE'",
	"hbase":     "in its shell, run flush and major_compact for each table of the namespace",
}

// NewCompact returns the command "compact".
func NewCompact(e *cli.Env) *cobra.Command {
	var folder string
	var before int64
	return cli.Command{
		Use:   "compact",
		Short: "Rewrite the files of an embedded store without what was deleted",
		Long: `Compact writes the files of an embedded store anew, without values that were replaced,
deleted, or are of tables and columns that were dropped. Until then such values stay in
files, and take space. Run it after a column that was plain has become encrypted, when
'table convert' has ended. It needs as much free space as the store takes, and no other
program may have the store open. If it is stopped, run it again.

Copies of the folder, snapshots of the file system and blocks that the disk has not used
again may still have those values. Cassandra and HBase have commands of their own.`,
		Example: "  rangecrypt compact --store pebble:data --key app.key",
		JSON:    cli.OneLine,
		How:     stores.How{Compact: true},
		Check: func(c *cli.Call) error {
			if err := c.Kept.Check(); err != nil {
				return err
			}
			kind, rest, err := stores.Split(c.Kept.Name)
			if err != nil {
				return err
			}
			if do := elsewhereCompacted[kind]; do != "" {
				return exit.Usagef("compact is for embedded stores, pebble:DIR: %s", do)
			}
			folder, before = rest, bytesIn(rest)
			return nil
		},
		Run: func(_ context.Context, c *cli.Call) error {
			after := bytesIn(folder)
			return c.Result(struct {
				Record string `json:"record"`
				Store  string `json:"store"`
				Before int64  `json:"bytes_before"`
				After  int64  `json:"bytes_after"`
			}{"compaction", c.ShownStore(), before, after},
				fmt.Sprintf("the files of %s take %.1f MB, and took %.1f MB", show.Visible(c.ShownStore()), float64(after)/1e6, float64(before)/1e6))
		},
	}.New(e)
}

// bytesIn returns how many bytes the files of a folder have; what cannot be read counts for nothing.
func bytesIn(folder string) (n int64) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
	}
	return n
}
