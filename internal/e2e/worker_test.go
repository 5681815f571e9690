package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/index"
)

// workerVariable, when it is set, makes this program a worker, with the order that the first line of
// its standard input holds.
const workerVariable = "RANGECRYPT_E2E_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		if err := work(); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A schemeKind is a stateful scheme that the processes share.
type schemeKind struct {
	name string
	new  func(key ope.Key, ix ope.Index) (ope.Scheme, error)
}

var domain = ope.Domain{Min: -1 << 31, Max: 1<<31 - 1}

var schemes = []schemeKind{
	{"wozniak", func(key ope.Key, ix ope.Index) (ope.Scheme, error) {
		return wozniak.NewIndexed(key, domain, ix, "column", nil)
	}},
	// Its units are divided over and over again.
	{"kerschbaum", func(key ope.Key, ix ope.Index) (ope.Scheme, error) {
		return kerschbaum.New(key, domain, ix, &kerschbaum.Options{Name: "column", UnitValues: 64})
	}},
	{"kerschbaum-ranked", func(key ope.Key, ix ope.Index) (ope.Scheme, error) {
		return kerschbaum.NewRanked(key, domain, ix, &kerschbaum.Options{Name: "column", UnitValues: 64})
	}},
	// As published, it encrypts everything again each time that there is no room, which 32 values in
	// ascending order suffice for.
	{"kerschbaum-paper", func(key ope.Key, ix ope.Index) (ope.Scheme, error) {
		return kerschbaum.New(key, domain, ix, &kerschbaum.Options{Name: "column", Lambda: 2})
	}},
}

// An order is what a process is to do.
type order struct {
	Database, Name string // as of package testdb
	Scheme         string // or tableScheme
	Number         int    // of the process, for tables
	Table          tableKind
	Key            []byte
	Seed           uint64
	Begun          time.Time // when the test began
	Values         []int64   // not to write but to check: the values to look at
	Break          string    // what is to be wrong, for tests of the test
}

// A worker reports on standard output, line by line, before it goes on to the next:
//
//	ready
//	try 1 2 3       it is about to encrypt these
//	ack 1 a0b1      the value was encrypted, and this is its ciphertext
//	range 1 5       it has read a range, and found what it should
//	entry 1 a0b1    (of a check) the index holds the value, with this ciphertext
//	rebalanced      it has rebalanced
//	later TEXT      an error after which the same call may succeed
//	wrong TEXT      a promise was broken
//	failed TEXT     it cannot go on
//	done            (of a check) that was all
//
// What was written to a pipe stays there when the process dies.
type worker struct {
	order  order
	scheme ope.Scheme
	r      *rand.Rand
	mine   []int64 // acknowledged to this process, ascending
}

func work() error {
	var w worker
	in := bufio.NewReader(os.Stdin)
	text, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &w.order); err != nil {
		return err
	}
	go func() { // not to outlive the test
		_, _ = io.Copy(io.Discard, in)
		os.Exit(2)
	}()
	ctx := context.Background()
	i := slices.IndexFunc(testdb.All, func(d testdb.Database) bool { return d.Name == w.order.Database })
	db, err := testdb.All[i].Join(ctx, w.order.Name)
	if err != nil {
		return err
	}
	key, err := ope.NewKey(w.order.Key)
	if err != nil {
		return err
	}
	if w.order.Scheme == tableScheme {
		return workTable(ctx, w.order, db, key)
	}
	ix, err := index.Open(ctx, db, "e2e")
	if err != nil {
		return err
	}
	ix, err = broken(ix, w.order.Break)
	if err != nil {
		return err
	}
	i = slices.IndexFunc(schemes, func(s schemeKind) bool { return s.name == w.order.Scheme })
	if w.scheme, err = schemes[i].new(key, ix); err != nil {
		return err
	}
	w.r = rand.New(rand.NewPCG(w.order.Seed, 0))
	fmt.Println("ready")
	if w.order.Values != nil {
		if err := w.check(ctx); err != nil {
			return err
		}
		fmt.Println("done")
		return db.Close()
	}
	for {
		if err := w.step(ctx); err != nil {
			return err
		}
	}
}

// step does one thing. It returns an error that the worker cannot go on after.
func (w *worker) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var err error
	switch n := w.r.IntN(100); {
	case n < 15:
		err = w.batch(ctx, w.pick(1+w.r.IntN(300)))
	case n < 25:
		err = w.read(ctx)
	case n < 27:
		if m, ok := w.scheme.(ope.Mutable); ok {
			if _, err = m.Rebalance(ctx, nil); err == nil {
				fmt.Println("rebalanced")
			}
		}
	default:
		err = w.one(ctx, w.pick(1)[0])
	}
	if err != nil && store.Retryable(err) {
		fmt.Println("later", err)
		return nil
	}
	return err
}

// pick chooses values: out of a small crowd, where processes often meet; out of the whole domain;
// or near the present moment, as a time series, where they append to each other.
func (w *worker) pick(n int) []int64 {
	xs := make([]int64, n)
	kind := w.r.IntN(3)
	first := time.Since(w.order.Begun).Milliseconds()
	for i := range xs {
		switch kind {
		case 0:
			xs[i] = w.r.Int64N(500)
		case 1:
			xs[i] = domain.Min + w.r.Int64N(domain.Max-domain.Min+1)
		default:
			xs[i] = 1_000_000 + first + int64(i)
		}
	}
	return xs
}

func (w *worker) one(ctx context.Context, x int64) error {
	fmt.Println("try", x)
	c, err := w.scheme.Encrypt(ctx, x)
	if err != nil {
		return err
	}
	w.acknowledge([]int64{x}, []ope.Ciphertext{c})
	got, err := w.scheme.Decrypt(ctx, c)
	if err == nil && got != x {
		wrong("the ciphertext of %d decrypts to %d", x, got)
	}
	if _, mutable := w.scheme.(ope.Mutable); mutable && errors.Is(err, ope.ErrStale) {
		return nil
	}
	return err
}

func (w *worker) batch(ctx context.Context, xs []int64) error {
	b, ok := w.scheme.(ope.BatchEncrypter)
	if !ok {
		return w.one(ctx, xs[0])
	}
	line := []byte("try")
	for _, x := range xs {
		line = fmt.Append(line, " ", x)
	}
	fmt.Printf("%s\n", line)
	cs, err := b.EncryptBatch(ctx, xs)
	if err != nil {
		return err
	}
	w.acknowledge(xs, cs)
	return nil
}

// acknowledge writes all lines at once, so that the worker does not spend its life on writing.
func (w *worker) acknowledge(xs []int64, cs []ope.Ciphertext) {
	var lines bytes.Buffer
	for i, x := range xs {
		fmt.Fprintf(&lines, "ack %d %x\n", x, []byte(cs[i]))
		if at, found := slices.BinarySearch(w.mine, x); !found {
			w.mine = slices.Insert(w.mine, at, x)
		}
	}
	_, _ = os.Stdout.Write(lines.Bytes())
}

func wrong(format string, args ...any) { fmt.Printf("wrong "+format+"\n", args...) }

// read reads a range, which must be in order and have what was acknowledged to this process.
func (w *worker) read(ctx context.Context) error {
	m, ok := w.scheme.(ope.Mutable)
	if !ok {
		return nil
	}
	lo := domain.Min + w.r.Int64N(domain.Max-domain.Min)
	hi := lo + w.r.Int64N(domain.Max-lo+1)
	if w.r.IntN(2) == 0 {
		lo, hi = w.r.Int64N(250), 250+w.r.Int64N(250)
	}
	from, _ := slices.BinarySearch(w.mine, lo)
	to, _ := slices.BinarySearch(w.mine, hi+1)
	missing := slices.Clone(w.mine[from:to])
	last := lo - 1
	n := 0
	for e, err := range m.Range(ctx, lo, hi) {
		if err != nil {
			return err
		}
		if e.Plaintext <= last || e.Plaintext > hi {
			wrong("the range from %d to %d has %d after %d", lo, hi, e.Plaintext, last)
		}
		last = e.Plaintext
		n++
		if len(missing) > 0 && missing[0] == e.Plaintext {
			missing = missing[1:]
		}
	}
	if len(missing) > 0 {
		wrong("the range from %d to %d lacks %d, which was acknowledged before", lo, hi, missing[0])
	}
	fmt.Println("range", lo, hi, n)
	return nil
}

// check looks at all that the index holds or, where it cannot be listed, at the given values.
func (w *worker) check(ctx context.Context) error {
	m, ok := w.scheme.(ope.Mutable)
	if !ok {
		for _, x := range w.order.Values {
			c, err := w.scheme.Encrypt(ctx, x)
			if err != nil {
				return err
			}
			if err := w.entry(ctx, x, c); err != nil {
				return err
			}
		}
		return nil
	}
	for e, err := range m.Range(ctx, domain.Min, domain.Max) {
		if err != nil {
			return err
		}
		if err := w.entry(ctx, e.Plaintext, e.Ciphertext); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) entry(ctx context.Context, x int64, c ope.Ciphertext) error {
	got, err := w.scheme.Decrypt(ctx, c)
	if err == nil && got != x {
		wrong("the ciphertext of %d decrypts to %d", x, got)
	}
	fmt.Println("entry", x, hex.EncodeToString(c))
	return err
}

// broken returns an index with something wrong.
func broken(ix ope.Index, how string) (ope.Index, error) {
	switch how {
	case "":
		return ix, nil
	case "forgets":
		return &forgets{Index: ix}, nil
	case "unconditional":
		return unconditional{ix}, nil
	}
	return nil, fmt.Errorf("there is no such way to break an index: %s", how)
}

// forgets acknowledges one commit in ten without making it.
type forgets struct {
	ope.Index
	n atomic.Int64
}

func (x *forgets) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	if x.n.Add(1)%10 == 0 {
		return true, nil
	}
	return x.Index.Commit(ctx, u, cond, change)
}

// unconditional makes every commit, whatever its condition.
type unconditional struct{ ope.Index }

func (x unconditional) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	for {
		v, err := x.Read(ctx, u, []byte{}, []byte{}, 0)
		if err != nil {
			return false, err
		}
		cond = ope.Condition{State: v.Meta.State, Generation: v.Meta.Generation}
		change.Meta.State = max(change.Meta.State, v.Meta.State)
		applied, err := x.Index.Commit(ctx, u, cond, change)
		if err != nil || applied {
			return applied, err
		}
	}
}
