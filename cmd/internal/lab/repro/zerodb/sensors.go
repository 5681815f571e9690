package zerodb

import (
	"bytes"
	"context"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/walk"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The measurements of a smart building of Mitterer et al., section 4.2: their attributes and how these are drawn. Statements
// name them by a range of dates.

// A reading is a record of the building. Its number is its date: seconds after the first one.
type reading struct {
	number            int64
	room, node, value int32
	state             int32
	desc              string
}

// readingOf returns the n-th record. A record that was updated has another value.
func readingOf(seed uint64, n int64, updated bool) reading {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	m := reading{number: n, room: 1111 + r.Int32N(9999-1111+1), value: 1 + r.Int32N(9999), state: r.Int32N(4)}
	// One of 900 nodes, which are the same in all records.
	m.node = 11111 + rand.New(rand.NewPCG(seed, 1<<40+uint64(r.IntN(900)))).Int32N(99999-11111+1)
	desc := []byte("door")
	for range 10 {
		desc = append(desc, byte('a'+r.IntN(26)))
	}
	m.desc = string(desc)
	if updated {
		m.value = 1 + (m.value+4999)%9999
	}
	return m
}

// Attributes that ZeroDB keeps an index of: all.
const (
	byDate = iota
	byValue
	byRoom
	byNode
	byState
	byDesc
	attributed
)

// attribute returns an attribute as bytes in the order of its values.
func (m reading) attribute(i int) []byte {
	switch i {
	case byDate:
		return dateBytes(m.number)
	case byDesc:
		return []byte(m.desc + "\x00")
	}
	x := [...]int32{byValue: m.value, byRoom: m.room, byNode: m.node, byState: m.state}[i]
	return binary.BigEndian.AppendUint32(nil, uint32(x))
}

func dateBytes(number int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(number)) }

func (m reading) bytes() []byte {
	b := dateBytes(m.number)
	for _, x := range []int32{m.room, m.node, m.value, m.state} {
		b = binary.BigEndian.AppendUint32(b, uint32(x))
	}
	return append(b, m.desc...)
}

func readReading(b []byte) (m reading, err error) {
	if len(b) < 24 {
		return m, errors.New("a record is too short")
	}
	number := func(i int) int32 { return int32(binary.BigEndian.Uint32(b[8+4*i:])) }
	return reading{int64(binary.BigEndian.Uint64(b)), number(0), number(1), number(2), number(3), string(b[24:])}, nil
}

// A readingTable keeps records for one client.
type readingTable interface {
	insert(ctx context.Context, all []reading) error
	// between returns the records with from <= number < to, in any order.
	between(ctx context.Context, from, to int64) ([]reading, error)
	// replace has records in place of those that were there, which differ in their value alone.
	replace(ctx context.Context, old, new []reading) error
	remove(ctx context.Context, all []reading) error
}

// storeReadings is a table of this module.
type storeReadings struct {
	t        *store.Table
	byColumn bool // the date is a column, which the row key does not say
}

// readingSchema returns a schema with the date in the row key, or as a column where scheme is none of keys.
func readingSchema(name string, key store.KeyPart, dates store.ColumnScheme) store.Schema {
	s := store.Schema{Name: name, Key: []store.KeyPart{key}, Columns: []store.Column{
		store.RandomisedColumn("room", store.Int32), store.RandomisedColumn("node", store.Int32), store.RandomisedColumn("value", store.Int32),
		store.RandomisedColumn("state", store.Int32), store.RandomisedColumn("desc", store.String),
	}}
	if dates != nil {
		s.Columns = append(s.Columns, store.OrderedColumn("date", store.Int64, dates))
	}
	return s
}

func (s storeReadings) rows(all []reading) (rows []store.Row) {
	for _, m := range all {
		row := store.Row{"number": m.number, "room": m.room, "node": m.node, "value": m.value, "state": m.state, "desc": m.desc}
		if s.byColumn {
			row["date"] = m.number
		}
		rows = append(rows, row)
	}
	return rows
}

func (s storeReadings) insert(ctx context.Context, all []reading) error {
	return s.t.Put(ctx, s.rows(all)...)
}

func (s storeReadings) between(ctx context.Context, from, to int64) (all []reading, err error) {
	part := "number"
	if s.byColumn {
		part = "date"
	}
	for row, err := range s.t.Query(ctx, store.Query{Where: store.Field[int64](part).Between(from, to-1)}) {
		if err != nil {
			return nil, err
		}
		var m reading
		m.number, _ = row["number"].(int64)
		m.room, _ = row["room"].(int32)
		m.node, _ = row["node"].(int32)
		m.value, _ = row["value"].(int32)
		m.state, _ = row["state"].(int32)
		m.desc, _ = row["desc"].(string)
		all = append(all, m)
	}
	return all, nil
}

func (s storeReadings) replace(ctx context.Context, _, new []reading) error {
	return s.insert(ctx, new)
}

func (s storeReadings) remove(ctx context.Context, all []reading) error {
	return s.t.Delete(ctx, s.rows(all)...)
}

// bareReadings are rows in the clear, by date, each statement in the fewest requests.
type bareReadings struct{ f driver.Family }

func (b bareReadings) insert(ctx context.Context, all []reading) error {
	var mutations []driver.Mutation
	for _, m := range all {
		mutations = append(mutations, driver.Mutation{Row: dateBytes(m.number), Puts: []driver.Cell{{Qualifier: []byte{}, Value: m.bytes()}}})
	}
	return b.f.Apply(ctx, mutations...)
}

func (b bareReadings) between(ctx context.Context, from, to int64) (all []reading, err error) {
	for row, err := range b.f.Scan(ctx, driver.Range{Start: dateBytes(from), End: dateBytes(to)}) {
		if err != nil {
			return nil, err
		}
		m, err := readReading(row.Cells[0].Value)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (b bareReadings) replace(ctx context.Context, _, new []reading) error { return b.insert(ctx, new) }

func (b bareReadings) remove(ctx context.Context, all []reading) error {
	var mutations []driver.Mutation
	for _, m := range all {
		mutations = append(mutations, driver.Mutation{Row: dateBytes(m.number), DeleteRow: true})
	}
	return b.f.Apply(ctx, mutations...)
}

// treeReadings are sealed objects, and for each attribute a tree that the client walks, as ZeroDB has them. An entry of a tree is
// the attribute with the id of the object. Their nodes and the objects are families of their own.
type treeReadings struct {
	objects driver.Family
	keys    treeKeys
	sealer  *seal.Sealer
	trees   [attributed]*walk.Tree
	single  bool // one record after the other, and one tree after the other, as ZeroDB does
}

// Lengths in bytes.
const (
	objectKeyBytes = 16
	numberBytes    = 8
)

// treeKeys are the keys of all clients: of the ids of objects, of what they hold, and of nodes.
type treeKeys struct{ ids, objects, nodes []byte }

func newTreeKeys() (k treeKeys) {
	for _, key := range []*[]byte{&k.ids, &k.objects, &k.nodes} {
		*key = make([]byte, seal.KeySize)
		crand.Read(*key)
	}
	return k
}

// readingTrees opens the trees as a client that remembers so many inner nodes of each.
func readingTrees(ctx context.Context, objects, nodes driver.Family, keys treeKeys, cached int, single bool) (*treeReadings, error) {
	s := &treeReadings{objects: objects, keys: keys, single: single}
	var err error
	if s.sealer, err = seal.New(keys.objects); err != nil {
		return nil, err
	}
	for i := range s.trees {
		if s.trees[i], err = walk.Open(ctx, nodes, keys.nodes, byte(i+1), walk.Options{Cached: cached}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// objectKey hides which record an object is: its number would say where in the order of dates it stands.
func (s *treeReadings) objectKey(number []byte) []byte {
	mac := hmac.New(sha256.New, s.keys.ids)
	mac.Write(number)
	return mac.Sum(nil)[:objectKeyBytes]
}

func (s *treeReadings) object(m reading) driver.Mutation {
	key := s.objectKey(dateBytes(m.number))
	sealed := s.sealer.Seal(nil, seal.Header{}, m.bytes(), seal.Place(nil).Append([]byte("object"), key))
	return driver.Mutation{Row: key, Puts: []driver.Cell{{Qualifier: []byte{}, Value: sealed}}}
}

// indexEntry returns the entry of a record in the tree of an attribute.
func indexEntry(m reading, attribute int) walk.Entry {
	return walk.Entry{Key: append(m.attribute(attribute), dateBytes(m.number)...)}
}

// each does something with records and some trees: with all at once, or with one after the other.
func (s *treeReadings) each(ctx context.Context, all []reading, trees []int, do func(ctx context.Context, tree *walk.Tree, attribute int, part []reading) error) error {
	if !s.single {
		group, ctx := errgroup.WithContext(ctx)
		for _, i := range trees {
			group.Go(func() error { return do(ctx, s.trees[i], i, all) })
		}
		return group.Wait()
	}
	for part := range slices.Chunk(all, 1) {
		for _, i := range trees {
			if err := do(ctx, s.trees[i], i, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// change makes a change of the object of each record.
func (s *treeReadings) change(ctx context.Context, all []reading, change func(reading) driver.Mutation) error {
	size := len(all)
	if s.single {
		size = 1
	}
	for part := range slices.Chunk(all, max(size, 1)) {
		var mutations []driver.Mutation
		for _, m := range part {
			mutations = append(mutations, change(m))
		}
		if err := s.objects.Apply(ctx, mutations...); err != nil {
			return err
		}
	}
	return nil
}

var allTrees = []int{byDate, byValue, byRoom, byNode, byState, byDesc}

func (s *treeReadings) insert(ctx context.Context, all []reading) error {
	// What an entry leads to is there before the entry.
	if err := s.change(ctx, all, s.object); err != nil {
		return err
	}
	return s.each(ctx, all, allTrees, func(ctx context.Context, tree *walk.Tree, attribute int, part []reading) error {
		var entries []walk.Entry
		for _, m := range part {
			entries = append(entries, indexEntry(m, attribute))
		}
		return tree.Insert(ctx, entries...)
	})
}

func (s *treeReadings) between(ctx context.Context, from, to int64) (all []reading, err error) {
	var keys [][]byte
	for e, err := range s.trees[byDate].Range(ctx, dateBytes(from), dateBytes(to), 0) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, s.objectKey(e.Key[len(e.Key)-numberBytes:]))
	}
	for part := range slices.Chunk(keys, driver.MaxBatch) {
		objects, err := s.objects.GetBatch(ctx, part, driver.Slice{})
		if err != nil {
			return nil, err
		}
		for i, cells := range objects {
			if len(cells) != 1 {
				return nil, fmt.Errorf("%w: an entry leads to no object", exit.ErrWrongAnswer)
			}
			plain, _, err := s.sealer.Open(nil, cells[0].Value, seal.Place(nil).Append([]byte("object"), part[i]))
			if err != nil {
				return nil, err
			}
			m, err := readReading(plain)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	return all, nil
}

func (s *treeReadings) replace(ctx context.Context, old, new []reading) error {
	if err := s.change(ctx, new, s.object); err != nil {
		return err
	}
	before := make(map[int64]reading)
	for _, m := range old {
		before[m.number] = m
	}
	return s.each(ctx, new, []int{byValue}, func(ctx context.Context, tree *walk.Tree, attribute int, part []reading) error {
		var gone [][]byte
		var entries []walk.Entry
		for _, m := range part {
			e, was := indexEntry(m, attribute), indexEntry(before[m.number], attribute)
			if !bytes.Equal(e.Key, was.Key) {
				gone, entries = append(gone, was.Key), append(entries, e)
			}
		}
		return tree.Replace(ctx, gone, entries)
	})
}

func (s *treeReadings) remove(ctx context.Context, all []reading) error {
	err := s.each(ctx, all, allTrees, func(ctx context.Context, tree *walk.Tree, attribute int, part []reading) error {
		var keys [][]byte
		for _, m := range part {
			keys = append(keys, indexEntry(m, attribute).Key)
		}
		return tree.Delete(ctx, keys...)
	})
	if err != nil {
		return err
	}
	return s.change(ctx, all, func(m reading) driver.Mutation {
		return driver.Mutation{Row: s.objectKey(dateBytes(m.number)), DeleteRow: true}
	})
}
