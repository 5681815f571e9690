// Package walk is the alternative to order-preserving encryption: an encrypted B+tree that the client walks. Each node is
// sealed as a whole, so that the database sees no order, and can find nothing: the client asks for the root, opens it, asks
// for the child that it names, and so on (Egorov and Wilkison, "ZeroDB white paper", 2016, which calls it remote traversal).
// It is here to be measured beside the schemes of this module.
//
// Clients share a tree without talking to each other. It is a B-link tree (Lehman and Yao, "Efficient locking for concurrent
// operations on B-trees", TODS 1981): each node names the next one of its level and where the keys of that begin, so that a
// client who comes to a node that has been split since its parent was read goes on to the right. Instead of locks, a node is
// replaced on condition that it still is what was read. A split makes the new node, shrinks the old one and tells the parent,
// in this order: a client that dies in between leaves a tree that answers right, and that the next writer completes.
//
// What the tree does not hide: how many nodes there are, how many bytes each has, from whoever watches the requests, which
// nodes are read one after the other, and where the database keeps when a cell was written, as Cassandra and HBase do, which
// leaves were made one after the other. If entries came in order, that is their order. The server may answer with an older node.
//
// A change of which the database does not say whether it was made is made again, also where another client has undone it
// meanwhile. One that failed may still come, until its node is changed. Nodes are never merged, and those that were made for a
// change which was then not made may stay, where no other node leads to them.
package walk

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Options change how a tree is kept and read. The zero Options are the defaults.
type Options struct {
	// Entries is how many entries a node has at most: 4 to 4096, by default [DefaultEntries]. Clients of a tree may differ in it.
	Entries int

	// Cached is how many inner nodes a client remembers, by default none. An outdated one costs round trips until it is
	// noticed, and no answer is wrong for it. Leaves are always read.
	Cached int
}

// Plenty is more inner nodes than a tree of ten million entries has.
const Plenty = 10_000

// DefaultEntries is how many entries a node has at most where [Options] do not say.
const DefaultEntries = 64

// Limits of entries, so that a node can be stored.
const (
	MaxKey   = 1 << 9  // bytes
	MaxValue = 1 << 10 // bytes

	maxEntries = 1 << 12

	readAhead = 256 // leaves that a range asks for at once
	together  = 32  // conditional changes of a client that are under way at once
)

// A Tree is a sorted set of entries, of which no two have one key. Its methods may be called from several goroutines.
type Tree struct {
	family driver.Family
	sealer *seal.Sealer
	root   nodeID
	most   int
	slots  chan struct{} // for conditional changes

	mu     sync.Mutex
	cached map[nodeID]*node
	room   int // of cached
}

// Spec describes the family of a tree: each node is a partition of its own, since conditional changes of one
// partition wait for each other.
func Spec(name string) driver.FamilySpec {
	return driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered, PrefixBytes: idSize}
}

// Open opens the tree with a number in a family of the [Spec], and makes it where it is not there. The key has
// [seal.KeySize] bytes and is used for nothing else.
func Open(ctx context.Context, family driver.Family, key []byte, number byte, opts Options) (*Tree, error) {
	if opts.Entries == 0 {
		opts.Entries = DefaultEntries
	}
	if opts.Entries < 4 || opts.Entries > maxEntries {
		return nil, fmt.Errorf("a node of %d entries: it may have 4 to %d", opts.Entries, maxEntries)
	}
	if opts.Cached < 0 {
		return nil, fmt.Errorf("a client cannot remember %d nodes", opts.Cached)
	}
	sealer, err := seal.New(key)
	if err != nil {
		return nil, err
	}
	t := &Tree{
		family: family, sealer: sealer, root: nodeID{idSize - 1: number}, most: opts.Entries, slots: make(chan struct{}, together),
		cached: make(map[nodeID]*node), room: opts.Cached,
	}
	for attempt := 0; ; attempt++ {
		cells, err := family.Get(ctx, t.root[:], driver.Slice{})
		if err != nil {
			return nil, err
		}
		if len(cells) > 0 {
			_, err := t.open(t.root, cells) // a wrong key is noticed here
			return t, err
		}
		if attempt > 0 {
			if err := pause.Again(ctx, "the root is not there yet", firstWait, mostWait, attempt-1); err != nil {
				return nil, err
			}
		}
		if _, _, err := t.swap(ctx, t.root, nil, new(node)); err != nil {
			return nil, err
		}
	}
}

// Insert adds entries, and gives those that are there the new values. Adding one again changes nothing. An error leaves
// open which of them were added, or will be.
func (t *Tree) Insert(ctx context.Context, entries ...Entry) error {
	return t.Replace(ctx, nil, entries)
}

// Delete removes the entries with the keys, as far as they are there.
func (t *Tree) Delete(ctx context.Context, keys ...[]byte) error { return t.Replace(ctx, keys, nil) }

// Replace is Delete and Insert in one walk. A key that is in both is inserted.
func (t *Tree) Replace(ctx context.Context, keys [][]byte, entries []Entry) error {
	var changes []change
	for _, key := range keys {
		changes = append(changes, change{Entry: Entry{Key: bytes.Clone(key)}, remove: true})
	}
	for _, e := range entries {
		if len(e.Key) == 0 || len(e.Key) > MaxKey || len(e.Value) > MaxValue {
			return fmt.Errorf("%w: a key of the tree has 1 to %d bytes, a value at most %d", driver.ErrTooLarge, MaxKey, MaxValue)
		}
		// Keys are kept as bounds of nodes, and callers use theirs again.
		changes = append(changes, change{Entry: Entry{bytes.Clone(e.Key), bytes.Clone(e.Value)}})
	}
	return t.update(ctx, 0, changes)
}

// Get returns the values of keys, and nil where there is no entry.
func (t *Tree) Get(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	wanted := make([]change, len(keys))
	for i, key := range keys {
		wanted[i] = change{Entry: Entry{Key: key}}
	}
	found, _, err := t.descend(ctx, 0, sorted(wanted))
	if err != nil {
		return nil, err
	}
	at := make(map[string][]byte)
	for _, v := range found {
		for _, c := range v.changes {
			if i, ok := v.node.find(c.Key); ok {
				at[string(c.Key)] = v.node.entries[i].Value
			}
		}
	}
	values := make([][]byte, len(keys))
	for i, key := range keys {
		if value, ok := at[string(key)]; ok {
			values[i] = append([]byte{}, value...)
		}
	}
	return values, nil
}

// A change puts an entry or removes it.
type change struct {
	Entry
	remove bool
}

// sorted returns the changes in the order of their keys, the last one of each.
func sorted(changes []change) []change {
	all := slices.Clone(changes)
	slices.SortStableFunc(all, func(a, b change) int { return bytes.Compare(a.Key, b.Key) })
	var last []change
	for i, c := range all {
		if i+1 == len(all) || !bytes.Equal(c.Key, all[i+1].Key) {
			last = append(last, c)
		}
	}
	return last
}

// A visit is a node that is looked at for some keys.
type visit struct {
	id      nodeID
	parent  *visit // that named it, of itself or of a node to its left; nil for the root
	node    *node
	cached  bool // as the node was remembered
	changes []change
}

// descend finds the nodes of a level to which changes belong, each once. It also returns, by their level, what nodes above
// lack, since who split a node has not told its parent.
func (t *Tree) descend(ctx context.Context, level byte, changes []change) (found []*visit, lacking map[byte][]change, err error) {
	at := make(map[nodeID]*visit) // where changes belong
	lacking = make(map[byte][]change)
	for len(changes) > 0 {
		var again []change // that an outdated node has led too far to the left
		for front := []*visit{{id: t.root, changes: changes}}; len(front) > 0; {
			if err := t.look(ctx, front, level); err != nil {
				return nil, nil, err
			}
			var next []*visit
			for _, v := range front {
				n := v.node
				here := len(v.changes)
				for here > 0 && !n.reaches(v.changes[here-1].Key) {
					here--
				}
				switch beyond := v.changes[here:]; {
				case len(beyond) == 0:
				case v.parent.cached:
					t.forget(v.parent.id)
					again = append(again, beyond...)
				default: // the node was split since its parent was read, or the parent was never told
					next = append(next, &visit{id: n.right, parent: v.parent, changes: beyond})
					lacking[n.level+1] = append(lacking[n.level+1], change{Entry: Entry{n.high, n.right[:]}})
				}
				switch v.changes = v.changes[:here]; {
				case here == 0:
				case n.level > level:
					next = append(next, v.below()...)
				case n.level < level:
					return nil, nil, errDamaged
				case at[v.id] == nil:
					at[v.id] = v
					found = append(found, v)
				default:
					at[v.id].changes = sorted(append(slices.Clip(at[v.id].changes), v.changes...))
					at[v.id].node = n
				}
			}
			front = next
		}
		changes = sorted(again)
	}
	return found, lacking, nil
}

// below returns the visits of the children that a visit of an inner node leads to.
func (v *visit) below() (all []*visit) {
	for rest := v.changes; len(rest) > 0; {
		i, run := v.node.child(rest[0].Key), len(rest)
		if i+1 < len(v.node.entries) {
			end := v.node.entries[i+1].Key
			run = sort.Search(len(rest), func(i int) bool { return bytes.Compare(rest[i].Key, end) >= 0 })
		}
		all = append(all, &visit{id: v.node.entries[i].id(), parent: v, changes: rest[:run]})
		rest = rest[run:]
	}
	return all
}

// look fills in the nodes of visits that are on their way to a level: in one round trip, unless all are remembered.
func (t *Tree) look(ctx context.Context, front []*visit, level byte) error {
	var missing []nodeID
	for _, v := range front {
		if v.node = t.remembered(v.id, level); v.node != nil {
			v.cached = true
		} else if !slices.Contains(missing, v.id) {
			missing = append(missing, v.id)
		}
	}
	read, err := t.read(ctx, missing)
	if err != nil {
		return err
	}
	for _, v := range front {
		if v.node == nil {
			v.node = read[v.id]
		}
	}
	return nil
}

// remembered returns a node above a level from the cache, or nil.
func (t *Tree) remembered(id nodeID, level byte) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.cached[id]; n != nil && n.level > level {
		return n
	}
	return nil
}

// remember keeps an inner node, in place of any other where there is no room.
func (t *Tree) remember(id nodeID, n *node) {
	if n.level == 0 || t.room == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.cached[id]; !ok && len(t.cached) >= t.room {
		for other := range t.cached {
			delete(t.cached, other)
			break
		}
	}
	t.cached[id] = n
}

func (t *Tree) forget(id nodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.cached, id)
}

func (t *Tree) forgetAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.cached)
}

// read reads nodes.
func (t *Tree) read(ctx context.Context, ids []nodeID) (map[nodeID]*node, error) {
	nodes := make(map[nodeID]*node, len(ids))
	for part := range slices.Chunk(ids, driver.MaxBatch) {
		rows := make([][]byte, len(part))
		for i := range part {
			rows[i] = part[i][:]
		}
		all, err := t.family.GetBatch(ctx, rows, driver.Slice{})
		if err != nil {
			return nil, err
		}
		for i, cells := range all {
			n, err := t.open(part[i], cells)
			if err != nil {
				return nil, fmt.Errorf("node %x: %w", part[i], err)
			}
			nodes[part[i]] = n
			t.remember(part[i], n)
		}
	}
	return nodes, nil
}

// Waits of a client whose change was refused, since another one was faster.
const (
	firstWait = 2 * time.Millisecond
	mostWait  = 200 * time.Millisecond
)

// update makes changes of the nodes of a level, and tells the level above of splits.
func (t *Tree) update(ctx context.Context, level byte, changes []change) error {
	pending := changes
	for attempt := 0; len(pending) > 0; attempt++ {
		if attempt > 0 {
			if err := pause.Again(ctx, "a node was not changed, or nobody knows", firstWait, mostWait, attempt-1); err != nil {
				return err
			}
		}
		found, above, err := t.descend(ctx, level, sorted(pending))
		if err != nil {
			return err
		}
		pending = nil
		var mu sync.Mutex
		group, gctx := errgroup.WithContext(ctx)
		group.SetLimit(together)
		for _, v := range found {
			group.Go(func() error {
				done, split, err := t.rewrite(gctx, v)
				mu.Lock()
				defer mu.Unlock()
				above[level+1] = append(above[level+1], split...)
				if !done {
					pending = append(pending, v.changes...)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for l := level + 1; len(above) > 0; l++ {
			if err := t.update(ctx, l, above[l]); err != nil {
				return err
			}
			delete(above, l)
		}
	}
	return nil
}

// rewrite makes the changes of a visit, and returns what the level above is to be told. It has not done it if another
// client was faster.
func (t *Tree) rewrite(ctx context.Context, v *visit) (done bool, above []change, err error) {
	n := v.node
	entries, changed := merge(n.entries, v.changes)
	if !changed {
		return true, nil, nil
	}
	next := &node{level: n.level, entries: entries, right: n.right, high: n.high}
	if len(entries) <= t.most {
		done, _, err = t.swap(ctx, v.id, n, next)
		return done, nil, err
	}
	var made []newNode
	if v.id == t.root {
		// The root keeps its id, so what it holds goes down. It may be more than one level that comes between.
		for len(next.entries) > t.most {
			parts, links := divide(next, t.most)
			made = append(made, parts...)
			links[0].Key = nil // all that is below comes here
			next = &node{level: next.level + 1, entries: links}
		}
	} else {
		parts, links := divide(next, t.most)
		made = parts[1:]
		next = &parts[0].node
		for _, link := range links[1:] {
			above = append(above, change{Entry: link})
		}
	}
	done, err = t.replace(ctx, v.id, n, next, made)
	if !done {
		above = nil
	}
	return done, above, err
}

// merge returns entries with changes made, and whether that changed anything.
func merge(entries []Entry, changes []change) (merged []Entry, changed bool) {
	merged = make([]Entry, 0, len(entries)+len(changes))
	for _, c := range changes {
		for len(entries) > 0 && bytes.Compare(entries[0].Key, c.Key) < 0 {
			merged, entries = append(merged, entries[0]), entries[1:]
		}
		there := len(entries) > 0 && bytes.Equal(entries[0].Key, c.Key)
		changed = changed || c.remove && there || !c.remove && (!there || !bytes.Equal(entries[0].Value, c.Value))
		if there {
			entries = entries[1:]
		}
		if !c.remove {
			merged = append(merged, c.Entry)
		}
	}
	return append(merged, entries...), changed
}

// A newNode is a node that is to be made.
type newNode struct {
	id nodeID
	node
}

// divide returns nodes with the entries of one, and what leads to them from above. All are new ones: who keeps the first
// under the id of the old node leaves out the new id. Room is left in each for what comes next.
func divide(n *node, most int) (parts []newNode, links []Entry) {
	count := max(2, (len(n.entries)*3+2*most-1)/(2*most))
	for i := range count {
		from, to := i*len(n.entries)/count, (i+1)*len(n.entries)/count
		p := newNode{node: node{level: n.level, entries: n.entries[from:to]}}
		rand.Read(p.id[:])
		parts = append(parts, p)
		links = append(links, Entry{p.entries[0].Key, bytes.Clone(p.id[:])})
	}
	for i := range parts {
		p := &parts[i]
		if i+1 < count {
			p.right, p.high = parts[i+1].id, parts[i+1].entries[0].Key
		} else {
			p.right, p.high = n.right, n.high
		}
	}
	return parts, links
}

// replace makes new nodes, and then has a node that leads to them in place of another.
func (t *Tree) replace(ctx context.Context, id nodeID, old, next *node, made []newNode) (bool, error) {
	var lost atomic.Bool
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for i := range made {
		group.Go(func() error {
			done, _, err := t.swap(gctx, made[i].id, nil, &made[i].node)
			if !done {
				lost.Store(true)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil || lost.Load() {
		return false, err
	}
	done, sure, err := t.swap(ctx, id, old, next)
	if done || !sure || err != nil {
		return done, err // the new nodes may be part of the tree
	}
	var unused []driver.Mutation
	for i := range made {
		t.forget(made[i].id)
		unused = append(unused, driver.Mutation{Row: made[i].id[:], DeleteRow: true})
	}
	_ = t.family.Apply(ctx, unused...) // otherwise they stay, and nothing leads to them
	return false, nil
}

// swap puts a node in place of the one that was read, or of none. It did not if another client has changed it. That is
// not sure where the database did not answer: it may still do it, unless the node is changed before.
func (t *Tree) swap(ctx context.Context, id nodeID, old, next *node) (done, sure bool, err error) {
	expected := driver.Cell{Qualifier: versionCell}
	if old != nil {
		expected.Value = old.version[:]
	}
	rand.Read(next.version[:])
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return false, false, pause.Ended(ctx)
	}
	done, err = t.family.CheckAndPut(ctx, id[:], expected, t.cells(id, next)...)
	<-t.slots
	sure = true
	if errors.Is(err, driver.ErrUnknownOutcome) && ctx.Err() == nil {
		var cells []driver.Cell
		if cells, err = t.family.Get(ctx, id[:], driver.Slice{Only: [][]byte{versionCell}}); err != nil {
			return false, false, err
		}
		done = len(cells) == 1 && bytes.Equal(cells[0].Value, next.version[:])
		sure = done
	}
	if err != nil {
		return false, false, err
	}
	if done {
		t.remember(id, next)
	} else {
		t.forget(id)
	}
	return done, sure, nil
}

// Range yields the entries with from <= key < to in ascending order of their keys, at most limit of them, where 0 is no
// limit. A nil bound is none. An error is the last thing yielded. An entry that is not changed meanwhile is yielded once.
func (t *Tree) Range(ctx context.Context, from, to []byte, limit int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if to != nil && bytes.Compare(from, to) >= 0 {
			return
		}
		ids, read, err := t.leaves(ctx, from, to)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		ahead := readAhead
		if limit > 0 {
			ahead = min(ahead, 2+3*limit/t.most)
		}
		yielded := 0
		for id := ids[0]; ; {
			i := slices.Index(ids[:min(len(ids), ahead)], id)
			if read[id] == nil {
				// What comes next by the parents is read as well. A node that they do not name comes by itself.
				wanted := []nodeID{id}
				if i >= 0 {
					wanted = ids[i:min(len(ids), i+ahead)]
				}
				more, err := t.read(ctx, wanted)
				if err != nil {
					yield(Entry{}, err)
					return
				}
				maps.Copy(read, more)
			}
			n := read[id]
			delete(read, id)
			ids = ids[i+1:]
			start, _ := n.find(from)
			for _, e := range n.entries[start:] {
				if to != nil && bytes.Compare(e.Key, to) >= 0 {
					return
				}
				if yielded++; !yield(Entry{bytes.Clone(e.Key), bytes.Clone(e.Value)}, nil) || yielded == limit {
					return
				}
			}
			if id = n.right; id == (nodeID{}) || to != nil && bytes.Compare(n.high, to) >= 0 {
				return
			}
			if t.room > 0 && !slices.Contains(ids[:min(len(ids), ahead)], id) {
				// What is remembered does not name the next node: what is there now may.
				t.forgetAll()
				if ids, _, err = t.leaves(ctx, n.high, to); err != nil {
					yield(Entry{}, err)
					return
				}
			}
		}
	}
}

// leaves returns the ids of the leaves of a range as far as their parents name them, in order, the first one always. Of
// those it also returns what was read.
func (t *Tree) leaves(ctx context.Context, from, to []byte) (ids []nodeID, read map[nodeID]*node, err error) {
	front := []*visit{{id: t.root}}
	for {
		if err := t.look(ctx, front, 0); err != nil {
			return nil, nil, err
		}
		var next []*visit
		var last []byte // key of the last one of next
		for _, v := range front {
			n := v.node
			if n.level == 0 {
				return []nodeID{v.id}, map[nodeID]*node{v.id: n}, nil // the root
			}
			for _, e := range n.entries[n.child(from):] {
				if len(next) > 0 && to != nil && bytes.Compare(e.Key, to) >= 0 {
					break
				}
				// An outdated node may name what the next one names by now.
				if len(next) == 0 || bytes.Compare(e.Key, last) > 0 {
					next, last = append(next, &visit{id: e.id()}), e.Key
				}
			}
		}
		if front[0].node.level == 1 {
			for _, v := range next {
				ids = append(ids, v.id)
			}
			return ids, make(map[nodeID]*node), nil
		}
		front = next
	}
}

// Height returns how many nodes there are from the root to a leaf.
func (t *Tree) Height(ctx context.Context) (int, error) {
	nodes, err := t.read(ctx, []nodeID{t.root})
	if err != nil {
		return 0, err
	}
	return int(nodes[t.root].level) + 1, nil
}
