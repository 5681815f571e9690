package bench

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/walk"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What is measured as the alternative to the schemes: an encrypted tree that the client walks, of which it remembers inner
// nodes or nothing.
const (
	Tree         = "tree"
	TreeUncached = "tree-uncached"
)

// IsTree reports whether a name is that of a tree.
func IsTree(name string) bool { return name == Tree || name == TreeUncached }

// Baseline returns the name of what a scheme is compared with; see [benchtable.Baseline].
func Baseline(scheme string) string {
	if IsTree(scheme) {
		return benchtable.Plain
	}
	return benchtable.Baseline(scheme)
}

// treeTable is rows in an encrypted tree, whose entries are value and row id.
type treeTable struct {
	family driver.Family
	tree   *walk.Tree
	domain ope.Domain
}

// treeCandidates makes the trees that are measured, each in a family of its own, whose key ends with the process.
func (s *Store) treeCandidates(ctx context.Context, cfg Config) (all []*candidate, err error) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Trees)) {
		f, err := s.db.Family(ctx, walk.Spec(cfg.Trees[name]))
		if err != nil {
			return nil, err
		}
		key := make([]byte, seal.KeySize)
		rand.Read(key)
		opts := walk.Options{Cached: walk.Plenty}
		if name == TreeUncached {
			opts.Cached = 0
		}
		tree, err := walk.Open(ctx, f, key, 1, opts)
		if err != nil {
			return nil, err
		}
		c := newCandidate(&treeTable{f, tree, cfg.Source.Kind().Domain}, cfg.Selectivities)
		c.Target, c.SchemeID, c.Families = benchtable.Target{Scheme: name, Layout: benchtable.LayoutKey}, name, []string{cfg.Trees[name]}
		all = append(all, c)
	}
	return all, nil
}

// bound returns where entries begin whose value is x or more.
func (t *treeTable) bound(x int64) []byte {
	return binary.BigEndian.AppendUint64(nil, t.domain.Offset(x))
}

func (t *treeTable) Insert(ctx context.Context, rows []Row) error {
	entries := make([]walk.Entry, len(rows))
	for i, r := range rows {
		entries[i].Key = append(t.bound(r.Value), r.Tie[:]...)
	}
	return t.tree.Insert(ctx, entries...)
}

func (t *treeTable) Range(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		d, ok := t.domain.Intersect(lo, hi)
		if !ok {
			return
		}
		var to []byte
		if d.Max < t.domain.Max {
			to = t.bound(d.Max + 1)
		}
		for e, err := range t.tree.Range(ctx, t.bound(d.Min), to, limit) {
			var row Row
			switch {
			case err != nil:
			case len(e.Key) != 8+TieSize:
				err = fmt.Errorf("%w: an entry of the tree is not as it was put", exit.ErrWrongAnswer)
			default:
				row.Value = t.domain.At(binary.BigEndian.Uint64(e.Key))
				copy(row.Tie[:], e.Key[8:])
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// bytes returns the length of the keys, qualifiers and cells of all nodes, also after the run was interrupted.
func (t *treeTable) bytes(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for row, err := range t.family.Scan(ctx, driver.Range{AnyOrder: true}) {
		if err != nil {
			return 0, err
		}
		for _, c := range row.Cells {
			n += len(row.Key) + len(c.Qualifier) + len(c.Value)
		}
	}
	return n, nil
}

func (t *treeTable) IndexStats() (IndexStats, bool) { return IndexStats{}, false }
