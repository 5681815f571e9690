package walk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A nodeID is the row key of a node: a random number, or the id of the root.
type nodeID [idSize]byte

const idSize = 16

// An Entry is a key with its value.
type Entry struct{ Key, Value []byte }

// A node holds the keys from that of its first entry on which are below high. It is a leaf if its level is 0. The entries
// of others have the ids of children as values: a child's keys begin at the key of its entry.
type node struct {
	level   byte
	entries []Entry // in ascending order of their keys
	right   nodeID  // the next node of the level; zero for the last one
	high    []byte  // where the keys of the next one begin; empty for the last one

	version [16]byte // id of the write that it was read from
}

// reaches reports whether a key is in the node or below it, and not to its right.
func (n *node) reaches(key []byte) bool {
	return n.right == (nodeID{}) || bytes.Compare(key, n.high) < 0
}

// find returns the index of the entry with a key, or of where it would be.
func (n *node) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(n.entries, key, func(e Entry, key []byte) int { return bytes.Compare(e.Key, key) })
}

// child returns the index of the entry whose child has a key, of an inner node.
func (n *node) child(key []byte) int {
	i, found := n.find(key)
	if !found {
		i--
	}
	return max(i, 0)
}

func (e Entry) id() nodeID { return nodeID(e.Value) }

// A node lies in two cells. The version is by itself, so that a condition need not name the whole node.
var (
	versionCell = []byte{0}
	sealedCell  = []byte{1}
)

const nodeFormat = 1

// errDamaged is the error of a node that is missing, or is none that this tree has written at its place.
var errDamaged = errors.New("a node of the tree is missing or damaged")

// encode returns the node as it is sealed.
//
//	1 byte    format, 1
//	1 byte    level
//	16 bytes  id of the next node
//	high, the number of entries, and for each its key and its value; texts have their length before them
func (n *node) encode() []byte {
	b := append([]byte{nodeFormat, n.level}, n.right[:]...)
	text := func(s []byte) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	text(n.high)
	b = binary.AppendUvarint(b, uint64(len(n.entries)))
	for _, e := range n.entries {
		text(e.Key)
		text(e.Value)
	}
	return b
}

// decode undoes encode. A node was authenticated before, so that a wrong one is the fault of a program.
func decode(b []byte) (*node, error) {
	if len(b) < 2+idSize || b[0] != nodeFormat {
		return nil, fmt.Errorf("%w: it has another format", errDamaged)
	}
	n := &node{level: b[1], right: nodeID(b[2 : 2+idSize])}
	b = b[2+idSize:]
	bad := false
	number := func() int {
		x, size := binary.Uvarint(b)
		if size <= 0 || x > uint64(len(b)) {
			bad = true
			return 0
		}
		b = b[size:]
		return int(x)
	}
	text := func() []byte {
		size := number()
		if bad = bad || size > len(b); bad {
			return nil
		}
		s := b[:size:size]
		b = b[size:]
		return s
	}
	n.high = text()
	n.entries = make([]Entry, number())
	for i := range n.entries {
		e := Entry{text(), text()}
		if bad = bad || n.level > 0 && len(e.Value) != idSize; bad {
			break
		}
		n.entries[i] = e
	}
	if bad || len(b) > 0 || n.level > 0 && len(n.entries) == 0 {
		return nil, fmt.Errorf("%w: its length is wrong", errDamaged)
	}
	return n, nil
}

// place is where a node stands: in a tree, which its root names.
func (t *Tree) place(id nodeID) seal.Place {
	return seal.Place(nil).Append([]byte(sealedFor), t.root[:], id[:])
}

const sealedFor = "rangecrypt walked tree"

// open returns the node that the cells of a row hold.
func (t *Tree) open(id nodeID, cells []driver.Cell) (*node, error) {
	if len(cells) != 2 || !bytes.Equal(cells[0].Qualifier, versionCell) || !bytes.Equal(cells[1].Qualifier, sealedCell) {
		return nil, errDamaged
	}
	plain, header, err := t.sealer.Open(nil, cells[1].Value, t.place(id))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if !bytes.Equal(cells[0].Value, header.Write[:]) {
		return nil, fmt.Errorf("%w: its cells are of two writes", errDamaged)
	}
	n, err := decode(plain)
	if err != nil {
		return nil, err
	}
	n.version = header.Write
	return n, nil
}

// cells returns the cells of a node, whose version they are from now on.
func (t *Tree) cells(id nodeID, n *node) []driver.Cell {
	return []driver.Cell{
		{Qualifier: versionCell, Value: bytes.Clone(n.version[:])},
		{Qualifier: sealedCell, Value: t.sealer.Seal(nil, seal.Header{Write: n.version}, n.encode(), t.place(id))},
	}
}
