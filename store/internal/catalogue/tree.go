package catalogue

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
)

// The root of the catalogue proves every entry, and that there is no entry of a name, by a tree of three
// levels. Its nodes are cells of the same row, which are read in one request with the root and the
// entries, and are replaced in one compare-and-set with them:
//
//	qualifier      value: keys of what is there, in ascending order, each with the MAC of the cell it stands for
//	0x00 0x00      i, of nodes of the second level
//	0x00 0x01 i    j, of leaves
//	0x00 0x02 i j  qualifiers, of entries
//
// i and j are the upper six bits of the first two bytes of the HMAC in the qualifier of an entry, so
// that 10^5 entries are 24 in each of 4096 leaves. The digest in the root is the MAC of the first node. A MAC is of
// qualifier and value, so that no cell can stand in the place of another.
//
// Whatever of the row is put back or removed without the root does not fit it. A read is of one
// instant, as package driver asks for: a Get of HBase and of the embedded store is, and that of
// Cassandra merges whole changes of the row by their timestamps, since its replicas get a conditional
// batch at once, and read repair, which writes parts of rows, is off for wide tables. So what does not
// fit is no mixture of two states, and is not read again.
const (
	TreeLevels = 3
	treeShift  = 8 - 6

	// entrySize is the length of the qualifier of an entry: its kind and the HMAC of the name.
	entrySize = 1 + sha256.Size
)

// parent returns the qualifier of the node that an entry or node is listed in, and under which key.
func parent(q []byte) (node, key []byte) {
	if q[0] != RootQualifier[0] {
		return []byte{0, TreeLevels - 1, q[1] >> treeShift, q[2] >> treeShift}, q
	}
	level, last := q[1], len(q)-1
	return append([]byte{0, level - 1}, q[2:last]...), q[last:]
}

// Path returns the qualifiers of an entry and of the nodes above it, the first node last.
func Path(entry []byte) [][]byte {
	all := [][]byte{entry}
	for range TreeLevels {
		node, _ := parent(all[len(all)-1])
		all = append(all, node)
	}
	return all
}

// A node has the MACs of what it lists, by keys.
type node map[string]Digest

func (n node) value() (b []byte) {
	for _, key := range slices.Sorted(maps.Keys(n)) {
		d := n[key]
		b = append(append(b, key...), d[:]...)
	}
	return b
}

// openNode returns the content of a node. It was proven, so that the format is that of its writer.
func openNode(cell driver.Cell) (node, error) {
	n, size := make(node), 1
	if cell.Qualifier[1] == TreeLevels-1 {
		size = entrySize
	}
	for rest := cell.Value; len(rest) > 0; {
		var d Digest
		if len(rest) < size+len(d) {
			return nil, fmt.Errorf("%w: a node of the catalogue is cut short", fault.ErrFormat)
		}
		copy(d[:], rest[size:])
		n[string(rest[:size])], rest = d, rest[size+len(d):]
	}
	return n, nil
}

// Mac returns what the tree has of an entry or node.
func (c *Catalogue) Mac(cell driver.Cell) (d Digest) {
	kind := "entry"
	if cell.Qualifier[0] == RootQualifier[0] {
		kind = "node"
	}
	mac := hmac.New(sha256.New, c.Digests)
	mac.Write(keyring.Place(kind, cell.Qualifier, cell.Value))
	copy(d[:], mac.Sum(nil))
	return d
}

// A Tree has nodes by their qualifiers.
type Tree map[string]node

// Put lists entries, as they are from now on, and returns the nodes that change by that, and the digest of
// the root.
func (t Tree) Put(c *Catalogue, entries []driver.Cell) (nodes []driver.Cell, top Digest) {
	changed := entries
	for range TreeLevels {
		touched := make(map[string]bool)
		for _, cell := range changed {
			q, key := parent(cell.Qualifier)
			if t[string(q)] == nil {
				t[string(q)] = make(node)
			}
			t[string(q)][string(key)] = c.Mac(cell)
			touched[string(q)] = true
		}
		changed = nil
		for q := range touched {
			changed = append(changed, driver.Cell{Qualifier: []byte(q), Value: t[q].value()})
		}
		nodes = append(nodes, changed...)
	}
	if len(changed) > 0 {
		top = c.Mac(changed[0])
	}
	return nodes, top
}

// errUnproven is returned where entries and root do not fit.
var errUnproven = fmt.Errorf("%w: entries of the catalogue were put back or removed%s", fault.ErrTampered, restored)

// ProveSome returns the paths of some entries, which were read with the root, or an error if these are
// not the entries that the root is of.
func (c *Catalogue) ProveSome(r Root, cells map[string]driver.Cell, entries [][]byte) (Tree, error) {
	t := make(Tree)
	for _, entry := range entries {
		want := r.Digest
		for i, q := range slices.Backward(Path(entry)) {
			cell, there := cells[string(q)]
			var is Digest
			if there {
				is = c.Mac(cell)
			}
			if subtle.ConstantTimeCompare(is[:], want[:]) != 1 {
				return nil, errUnproven
			}
			if i == 0 || !there {
				want = Digest{} // nothing below it either
				continue
			}
			n, err := openNode(cell)
			if err != nil {
				return nil, err
			}
			t[string(q)] = n
			_, key := parent(Path(entry)[i-1])
			want = n[string(key)]
		}
	}
	return t, nil
}

// ProveAll returns the whole tree, or an error if the entries are not all that the root is of, or the
// nodes not those of the entries.
func (c *Catalogue) ProveAll(r Root, cells map[string]driver.Cell) (Tree, error) {
	t, entries, stored := make(Tree), []driver.Cell(nil), 0
	for _, cell := range cells {
		if cell.Qualifier[0] != RootQualifier[0] {
			entries = append(entries, cell)
		} else {
			stored++
		}
	}
	nodes, top := t.Put(c, entries)
	if subtle.ConstantTimeCompare(top[:], r.Digest[:]) != 1 || stored != len(nodes) {
		return nil, errUnproven
	}
	for _, n := range nodes {
		if string(cells[string(n.Qualifier)].Value) != string(n.Value) {
			return nil, errUnproven
		}
	}
	return t, nil
}
