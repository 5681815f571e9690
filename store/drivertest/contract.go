package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var contractChecks = []check{
	{"what is returned belongs to the caller", onOrdered, checkReturned},
	{"what is passed in is neither kept nor changed", onOrdered, checkPassed},
	{"a context that is done ends every method", onOrdered, checkContext},
	{"a deadline ends a method that is under way", onOrdered, checkDeadline},
	{"reads observe what was acknowledged", onOrdered, checkReadYourWrites},
}

func checkReturned(tb testing.TB, s *suite, f driver.Family, p string) {
	apply(tb, f, row(p+"a", put("q", "value a"), put("r", "")), row(p+"b", put("q", "value b")))
	spoil := func(found cells) {
		// An append must not reach a neighbour either.
		for _, c := range found {
			_ = append(c.Qualifier, "zzzzzzzz"...)
			_ = append(c.Value, "zzzzzzzz"...)
		}
		_ = append(found, put("zz", "zz"))
	}
	destroy := func(found cells) {
		for i, c := range found {
			for _, b := range [][]byte{c.Qualifier, c.Value} {
				for j := range b {
					b[j] = 'X'
				}
			}
			found[i] = driver.Cell{}
		}
	}
	for range 2 {
		found := read(tb, f, p+"a", driver.Slice{})
		spoil(found)
		require.Equal(tb, []string{"q=value a", "r="}, show(found))
		destroy(found)

		rows := scan(tb, f, within(p))
		for _, r := range rows {
			spoil(r.Cells)
			_ = append(r.Key, "zzzzzzzz"...)
		}
		require.Equal(tb, []string{p + "a", p + "b"}, keys(rows))
		require.Equal(tb, []string{"q=value a", "r="}, show(rows[0].Cells))
		require.Equal(tb, []string{"q=value b"}, show(rows[1].Cells))
		for _, r := range rows {
			destroy(r.Cells)
			r.Key[0] = 'X'
		}
	}
	for range 2 {
		names, err := s.db.Families(background)
		require.NoError(tb, err)
		require.NotContains(tb, names, "X")
		for i := range names {
			names[i] = "X"
		}
	}
}

func checkPassed(tb testing.TB, _ *suite, f driver.Family, p string) {
	// passing gives slices with room to a call, checks that none was changed or written beyond, and
	// then destroys them.
	passing := func(call func(arg func(text string) []byte)) {
		tb.Helper()
		args := make(map[string][][]byte)
		call(func(text string) []byte {
			arg := append(make([]byte, 0, 100), text...)
			args[text] = append(args[text], arg)
			return arg
		})
		for text, same := range args {
			for _, arg := range same {
				require.Equal(tb, text, string(arg))
				for _, x := range arg[len(arg):cap(arg)] {
					require.Zero(tb, x, "something was written beyond a slice that was passed")
				}
				for i := range arg {
					arg[i] = 'X'
				}
			}
		}
	}
	passing(func(arg func(string) []byte) {
		apply(tb, f, driver.Mutation{Row: arg(p + "a"), Puts: cells{{Qualifier: arg("q"), Value: arg("value")}}, Deletes: [][]byte{arg("d")}})
	})
	is(tb, f, p+"a", "q=value")
	passing(func(arg func(string) []byte) {
		stamped := driver.Cell{Qualifier: arg("q"), Value: arg("value"), Stamp: seen(tb, f, p+"a", "q").Stamp}
		require.Empty(tb, replace(tb, f, driver.Replacement{
			Row: arg(p + "a"), Seen: stamped, Puts: cells{{Qualifier: arg("q"), Value: arg("other")}}, Deletes: [][]byte{arg("d")},
		}))
	})
	is(tb, f, p+"a", "q=other")
	passing(func(arg func(string) []byte) {
		ok, err := f.CheckAndPut(background, arg(p+"b"), driver.Cell{Qualifier: arg("q")}, driver.Cell{Qualifier: arg("q"), Value: arg("value")})
		require.NoError(tb, err)
		require.True(tb, ok)
	})
	is(tb, f, p+"b", "q=value")

	apply(tb, f, row(p+"c", put("q", "1"), put("r", "2"), put("s", "3")))
	var found cells
	passing(func(arg func(string) []byte) {
		var err error
		only := [][]byte{arg("s"), arg("q"), arg("s")}
		found, err = f.Get(background, arg(p+"c"), driver.Slice{Only: only})
		require.NoError(tb, err)
		require.Equal(tb, bs("s", "q", "s"), only)
		_, err = f.Get(background, arg(p+"c"), driver.Slice{Start: arg("q"), End: arg("s")})
		require.NoError(tb, err)
	})
	require.Equal(tb, []string{"q=1", "s=3"}, show(found))
	var rows []driver.Row
	passing(func(arg func(string) []byte) {
		rows = scan(tb, f, driver.Range{Start: arg(p + "a"), End: arg(p + "z"), Cells: driver.Slice{Only: bs("q")}})
	})
	require.Equal(tb, []string{p + "a", p + "b", p + "c"}, keys(rows))
}

type contextCause struct{}

func (contextCause) Error() string { return "the cause" }

func checkContext(tb testing.TB, s *suite, f driver.Family, p string) {
	apply(tb, f, row(p+"a", put("q", "v")))
	stamped := seen(tb, f, p+"a", "q")
	cancelled, cancel := context.WithCancel(background)
	cancel()
	caused, cancelCause := context.WithCancelCause(background)
	cancelCause(contextCause{})
	expired, cancelExpired := context.WithDeadline(background, time.Now().Add(-time.Second))
	defer cancelExpired()
	for _, c := range []struct {
		name string
		ctx  context.Context
		is   func(error) bool
	}{
		{"cancelled", cancelled, func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"cancelled with a cause", caused, func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.As(err, new(contextCause))
		}},
		{"expired", expired, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	} {
		ends := func(method string, err error) {
			tb.Helper()
			require.Error(tb, err, "%s with a context that is %s", method, c.name)
			require.True(tb, c.is(err), "%s with a context that is %s: %v", method, c.name, err)
		}
		_, err := f.Get(c.ctx, b(p+"a"), driver.Slice{})
		ends("Get", err)
		_, err = f.GetBatch(c.ctx, bs(p+"a", p+"b"), driver.Slice{})
		ends("GetBatch", err)
		ends("Scan", scanError(tb, f, c.ctx, within(p)))
		changes(tb, f, c.ctx, p+"a", stamped, ends)
		_, err = s.db.Family(c.ctx, s.specs["ordered"])
		ends("Family", err)
		_, err = s.db.Families(c.ctx)
		ends("Families", err)
		ends("Drop", s.db.Drop(c.ctx, s.specs["ordered"].Name))
	}
	require.Equal(tb, []string{p + "a"}, keys(scan(tb, f, within(p))), "something was written although the context was done")
	is(tb, f, p+"a", "q=v")

	// In the middle of a scan.
	manyRows(tb, f, p, 3000)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	n := 0
	var failed error
	for _, err := range f.Scan(ctx, within(p)) {
		require.NoError(tb, failed, "something was yielded after an error")
		if failed = err; err != nil {
			continue
		}
		if n++; n == 1 {
			cancel()
		}
	}
	require.ErrorIs(tb, failed, context.Canceled, "the scan went on to its end, %d rows", n)
}

func checkDeadline(tb testing.TB, s *suite, f driver.Family, p string) {
	var ms []driver.Mutation
	for i := range 2000 {
		ms = append(ms, row(fmt.Sprintf("%s%04d", p, i), put("q", strings.Repeat("v", 200))))
	}
	for i := range 12 {
		timeout := 200 * time.Microsecond << i // to 0.4 s
		begin := time.Now()
		ctx, cancel := context.WithTimeout(background, timeout)
		err := f.Apply(ctx, ms...)
		if err == nil {
			err = scanError(tb, f, ctx, within(p))
		}
		if err == nil {
			_, err = s.db.Families(ctx)
		}
		if err != nil {
			require.ErrorIs(tb, err, context.DeadlineExceeded)
			require.NotErrorIs(tb, err, driver.ErrUnavailable, "the database is well")
		}
		require.Less(tb, time.Since(begin), timeout+5*time.Second, "a deadline was not kept")
		cancel()
	}
	// The connection is still good.
	apply(tb, f, ms...)
	require.Len(tb, scan(tb, f, within(p)), len(ms))
}

func checkReadYourWrites(tb testing.TB, _ *suite, f driver.Family, p string) {
	for i := range 20 {
		v := fmt.Sprint(i)
		apply(tb, f, row(p+"a", put("q", v)))
		is(tb, f, p+"a", "q="+v)
		rows := scan(tb, f, within(p))
		require.Len(tb, rows, 1)
		require.Equal(tb, []string{"q=" + v}, show(rows[0].Cells))
	}
}
