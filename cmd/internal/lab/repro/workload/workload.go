// Package workload is a load of single operations on orders: the rows, the tables of each series that keep them, and clients
// that work on them.
package workload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

const (
	warehouses  = 10
	FirstOrders = 60 // of each client, before the first round
	RangeRows   = 20 // rows of a query
)

// A Kind is an operation on orders. Statements of TPC-C read and write in about the shares of [KindShares]; a block always has the
// same ones, in random order.
type Kind int

const (
	Get Kind = iota
	Insert
	Update
	Range
	Delete
	Kinds
)

// KindNames has what each kind is called.
var KindNames = [Kinds]string{"get", "insert", "update", "range query", "delete"}

// KindShares is how many operations of each kind a block has.
var KindShares = [Kinds]int{8, 4, 4, 3, 1}

// Shares says how many of each kind there are.
func Shares() string {
	var all []string
	for kind, n := range KindShares {
		all = append(all, fmt.Sprintf("%d %% %s", 100*n/BlockSize, KindNames[kind]))
	}
	return strings.Join(all, ", ")
}

// PerOperation says what a series takes of something for each kind.
func PerOperation(series string, numbers [Kinds]int) string {
	var text []string
	for kind, n := range numbers {
		text = append(text, fmt.Sprintf("%s %d", KindNames[kind], n))
	}
	return series + ": " + strings.Join(text, ", ")
}

// BlockSize is the number of operations in a block.
const BlockSize = 20

// Key is the row key of an order.
type Key struct {
	Warehouse int32
	Number    int64
}

// An Order is a row. Everything but the quantity is decided by its key.
type Order struct {
	Key
	Customer, district string
	item, amount       int64
	Quantity           int32
	entered            time.Time
}

// OrderOf returns the order of a key.
func OrderOf(k Key, quantity int32) Order {
	r := rand.New(rand.NewPCG(uint64(k.Warehouse), uint64(k.Number)))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
	return Order{
		Key: k, Customer: text(16), district: text(24), item: r.Int64N(100_000), amount: r.Int64N(1_000_000),
		Quantity: quantity, entered: time.UnixMilli(1_700_000_000_000 + k.Number).UTC(),
	}
}

// A Table keeps orders for one client.
type Table interface {
	Get(ctx context.Context, k Key) (Order, bool, error)
	Put(ctx context.Context, o Order) error
	// Query returns how many orders there are from a key on in n numbers.
	Query(ctx context.Context, k Key, n int) (int, error)
	Remove(ctx context.Context, k Key) error
}

// The series. Bare is what the others are compared with.
const (
	Padded    = "plaintext, padded"
	Library   = "plain-rangecrypt"
	Encrypted = "encrypted"
	Bare      = "plaintext"
	Searched  = "encrypted, ordered column"
)

// Series are all series, in the order of [Client.Tables].
var Series = []string{Padded, Library, Encrypted, Bare, Searched}

// Families are the families of the series that are no tables of this module.
var Families = map[string]string{Padded: "plain", Bare: "bare"}

// Schema returns the schema of a table of orders: one partition for each warehouse, in which
// they are in the order of their numbers, and the values of the columns in one cell.
func Schema(series string) store.Schema {
	key, column := []store.KeyPart{store.HashedPart("warehouse", store.Int32), store.OrderedPart("number", store.Int64, store.MOPE)}, store.RandomisedColumn
	if series == Library {
		key, column = []store.KeyPart{store.PlainPart("warehouse", store.Int32), store.OrderedPart("number", store.Int64, store.Plaintext)}, store.PlainColumn
	}
	amount := column("amount", store.Int64)
	if series == Searched {
		amount = store.OrderedColumn("amount", store.Int64, store.MOPE)
	}
	return store.Schema{Name: series, Key: key, Columns: []store.Column{
		column("customer", store.String), column("district", store.String), column("item", store.Int64),
		amount, column("quantity", store.Int32), column("entered", store.Int64),
	}}
}

// A StoreTable keeps orders in a table of this module.
type StoreTable struct{ T *store.Table }

func (s StoreTable) Get(ctx context.Context, k Key) (o Order, found bool, err error) {
	row, err := s.T.Get(ctx, store.Row{"warehouse": k.Warehouse, "number": k.Number})
	if err != nil || row == nil {
		return o, false, err
	}
	entered, _ := row["entered"].(int64)
	o = Order{Key: k, entered: time.UnixMilli(entered).UTC()}
	o.Customer, _ = row["customer"].(string)
	o.district, _ = row["district"].(string)
	o.item, _ = row["item"].(int64)
	o.amount, _ = row["amount"].(int64)
	o.Quantity, _ = row["quantity"].(int32)
	return o, true, nil
}

// Row returns the row of an order.
func (s StoreTable) Row(o Order) store.Row {
	return store.Row{
		"warehouse": o.Warehouse, "number": o.Number, "customer": o.Customer, "district": o.district,
		"item": o.item, "amount": o.amount, "quantity": o.Quantity, "entered": o.entered.UnixMilli(),
	}
}

func (s StoreTable) Put(ctx context.Context, o Order) error { return s.T.Put(ctx, s.Row(o)) }

func (s StoreTable) Query(ctx context.Context, k Key, n int) (found int, err error) {
	return s.Count(ctx, store.And(store.Field[int32]("warehouse").Equal(k.Warehouse), store.Field[int64]("number").Between(k.Number, k.Number+int64(n)-1)))
}

// Count returns how many orders a query reads.
func (s StoreTable) Count(ctx context.Context, where store.Predicate) (found int, err error) {
	for _, err := range s.T.Query(ctx, store.Query{Where: where}) {
		if err != nil {
			return 0, err
		}
		found++
	}
	return found, nil
}

func (s StoreTable) Remove(ctx context.Context, k Key) error {
	return s.T.Delete(ctx, store.Row{"warehouse": k.Warehouse, "number": k.Number})
}

// BareTable are orders without this module: a row is one cell in the clear, and each operation one
// request. Where an operation of the encrypted series takes further round trips, as many small reads
// can follow it, so that the two differ in nothing but encryption and what goes with it.
type BareTable struct {
	F       driver.Family
	Further [Kinds]int
}

const PrefixBytes = 4 // bytes of the warehouse

// Bytes returns the row key of an order without encryption.
func (k Key) Bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(k.Warehouse))
	return binary.BigEndian.AppendUint64(b, uint64(k.Number))
}

// Bytes returns the value of an order without encryption, which [ReadOrder] reads.
func (o Order) Bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(o.item))
	b = binary.BigEndian.AppendUint64(b, uint64(o.amount))
	b = binary.BigEndian.AppendUint32(b, uint32(o.Quantity))
	b = binary.BigEndian.AppendUint64(b, uint64(o.entered.UnixMilli()))
	return append(append(append(b, byte(len(o.Customer))), o.Customer...), o.district...)
}

// Mutation puts an order without encryption.
func (o Order) Mutation() driver.Mutation {
	return driver.Mutation{Row: o.Key.Bytes(), Puts: []driver.Cell{{Qualifier: []byte{}, Value: o.Bytes()}}}
}

// ReadOrder returns the order of a key from its value.
func ReadOrder(k Key, b []byte) (o Order, err error) {
	if len(b) < 29 || len(b) < 29+int(b[28]) {
		return o, errors.New("an order is too short")
	}
	n := 29 + int(b[28])
	return Order{
		Key: k, item: int64(binary.BigEndian.Uint64(b)), amount: int64(binary.BigEndian.Uint64(b[8:])),
		Quantity: int32(binary.BigEndian.Uint32(b[16:])), entered: time.UnixMilli(int64(binary.BigEndian.Uint64(b[20:]))).UTC(),
		Customer: string(b[29:n]), district: string(b[n:]),
	}, nil
}

// pad makes the further round trips of an operation.
func (b *BareTable) pad(ctx context.Context, kind Kind) error {
	for range b.Further[kind] {
		if _, err := b.F.Get(ctx, []byte("meta"), driver.Slice{Only: [][]byte{{}}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *BareTable) Get(ctx context.Context, k Key) (o Order, found bool, err error) {
	cells, err := b.F.Get(ctx, k.Bytes(), driver.Slice{})
	if err == nil && len(cells) > 0 {
		found = true
		o, err = ReadOrder(k, cells[0].Value)
	}
	return o, found, err
}

func (b *BareTable) Put(ctx context.Context, o Order) error {
	return b.F.Apply(ctx, o.Mutation())
}

func (b *BareTable) Query(ctx context.Context, k Key, n int) (found int, err error) {
	end := Key{k.Warehouse, k.Number + int64(n)}
	for row, err := range b.F.Scan(ctx, driver.Range{Start: k.Bytes(), End: end.Bytes()}) {
		if err == nil && len(row.Key) == 12 {
			_, err = ReadOrder(Key{k.Warehouse, int64(binary.BigEndian.Uint64(row.Key[4:]))}, row.Cells[0].Value)
		}
		if err != nil {
			return 0, err
		}
		found++
	}
	return found, nil
}

func (b *BareTable) Remove(ctx context.Context, k Key) error {
	return b.F.Apply(ctx, driver.Mutation{Row: k.Bytes(), DeleteRow: true})
}

// An Client is one client with its orders in the tables of all series, which it works on in
// turns. It alone has the orders of its numbers.
type Client struct {
	Number int
	Tables []Table // by series
	First  []int64 // by series: the first of its orders that was not deleted
	Next   []int64 // the one to insert next
	Random []*rand.Rand
}

// Key returns the key of one of the client's orders.
func (c *Client) Key(n int64) Key {
	return Key{int32(c.Number % warehouses), int64(c.Number)<<32 | n}
}

// Operate does one operation in a series, with its further round trips. An answer that is not right is
// exit.ErrWrongAnswer.
func (c *Client) Operate(ctx context.Context, series int, kind Kind) error {
	err := c.Do(ctx, series, kind)
	if b, ok := c.Tables[series].(*BareTable); ok && err == nil {
		err = b.pad(ctx, kind)
	}
	return err
}

// Do does one operation in a series, as [Client.Operate] without its further round trips.
func (c *Client) Do(ctx context.Context, series int, kind Kind) error {
	t, r := c.Tables[series], c.Random[series]
	some := func(room int64) Key {
		return c.Key(c.First[series] + r.Int64N(c.Next[series]-c.First[series]-room))
	}
	switch kind {
	case Get:
		k := some(0)
		o, found, err := t.Get(ctx, k)
		if err == nil && (!found || o != OrderOf(k, o.Quantity)) {
			err = fmt.Errorf("%w: an order is not as it was written", exit.ErrWrongAnswer)
		}
		return err
	case Insert:
		o := OrderOf(c.Key(c.Next[series]), 1)
		c.Next[series]++
		return t.Put(ctx, o)
	case Update:
		return t.Put(ctx, OrderOf(some(0), int32(r.Uint32()>>1)))
	case Range:
		n, err := t.Query(ctx, some(RangeRows-1), RangeRows)
		if err == nil && n != RangeRows {
			err = fmt.Errorf("%w: %d orders came instead of %d", exit.ErrWrongAnswer, n, RangeRows)
		}
		return err
	}
	k := c.Key(c.First[series])
	c.First[series]++
	return t.Remove(ctx, k)
}

// Block does the operations of a block in random order.
func (c *Client) Block(ctx context.Context, series int) error {
	var kinds []Kind
	for kind, n := range KindShares {
		kinds = append(kinds, slices.Repeat([]Kind{Kind(kind)}, n)...)
	}
	r := c.Random[series]
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds {
		if err := c.Operate(ctx, series, kind); err != nil {
			return err
		}
	}
	return nil
}

// Command returns a command on an order that no other one changes the existence of.
func (c *Client) Command(series int, r *rand.Rand) func(context.Context) error {
	t := c.Tables[series]
	k := c.Key(c.First[series] + r.Int64N(FirstOrders))
	switch r.IntN(4) {
	case 0:
		o := OrderOf(c.Key(c.Next[series]), 1)
		c.Next[series]++
		return func(ctx context.Context) error { return t.Put(ctx, o) }
	case 1:
		o := OrderOf(k, int32(r.Uint32()>>1))
		return func(ctx context.Context) error { return t.Put(ctx, o) }
	}
	return func(ctx context.Context) error {
		o, found, err := t.Get(ctx, k)
		if err == nil && (!found || o != OrderOf(k, o.Quantity)) {
			err = fmt.Errorf("%w: an order is not as it was written", exit.ErrWrongAnswer)
		}
		return err
	}
}
