package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"iter"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/progress"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
)

// An Input is what a pass over a source found.
type Input struct {
	Rows   int
	digest uint64 // of the values in their order, in this process
}

// ErrChanged is returned where the input is no longer what it was when it was read first. It is also ErrGrown
// where the rows of before are still there, and more after them.
var (
	ErrChanged = errors.New("the input has changed while it was read")
	ErrGrown   = fmt.Errorf("%w: it has more rows by now", ErrChanged)
)

var digestSeed = maphash.MakeSeed()

// digestOf returns a digest of numbers in their order.
func digestOf(numbers ...uint64) uint64 {
	buf := make([]byte, 0, 16)
	for _, x := range numbers {
		buf = binary.BigEndian.AppendUint64(buf, x)
	}
	return maphash.Bytes(digestSeed, buf)
}

func (in *Input) add(x int64) {
	in.Rows++
	in.digest = digestOf(in.digest, uint64(x))
}

// A checkedSource yields what it did when it was read as an Input, or ErrChanged.
type checkedSource struct {
	values.Source
	in Input
}

// Unchanged returns the source with the check that its values are still those of in.
func Unchanged(source values.Source, in Input) values.Source { return checkedSource{source, in} }

func (c checkedSource) Len() int { return c.in.Rows }

func (c checkedSource) Values() iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		var now Input
		for x, err := range c.Source.Values() {
			now.add(x)
			var unread *fs.PathError
			switch {
			case errors.Is(err, values.ErrInput) && !errors.As(err, &unread): // it had no such row before
				err = fmt.Errorf("%w: %w", ErrChanged, err)
			case err == nil && now.Rows > c.in.Rows:
				err = ErrGrown
			case err == nil && now.Rows == c.in.Rows && now != c.in: // nobody may ask for what comes after it
				err = ErrChanged
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
		if now.Rows < c.in.Rows {
			yield(0, ErrChanged)
		}
	}
}

// Count reads the values of the source, at most limit of them, where 0 is all. It meets every error
// that inserting them would meet.
func Count(ctx context.Context, source values.Source, limit int, bar progress.Reporter) (Input, error) {
	if bar == nil {
		bar = progress.None{}
	}
	bar.Start("reading", source.Len())
	defer bar.Done()
	var in Input
	for x, err := range source.Values() {
		if err != nil {
			return in, err
		}
		if in.add(x); in.Rows%4096 == 0 {
			bar.Add(4096)
			if err := ctx.Err(); err != nil {
				return in, err
			}
		}
		if in.Rows == limit {
			break
		}
	}
	return in, nil
}

// CheckLoad returns how many rows of a load a table holds already. It is exit.ErrUsage if these are not
// the rows of the source, of which at most limit are taken: to go on would mix two inputs.
func CheckLoad(ctx context.Context, table StoredTable, kind values.Kind, ties *loads.Ties, source values.Source, limit int, bar progress.Reporter) (int, error) {
	if bar == nil {
		bar = progress.None{}
	}
	bar.Start("looking for rows of the load", -1)
	defer bar.Done()
	errOther := exit.Usagef("the rows that this load has inserted are not those of this input: give the same file, column and flags as at first, or leave --load out to insert beside them. No command removes the rows of one load; 'rangecrypt table drop' removes their table")

	// What is there is kept as one bit for each row of the input, and a sum over all of it.
	var there []uint64
	rows, sum := 0, uint64(0)
	seen := 0
	unordered, err := table.Unordered(ctx)
	if err != nil {
		return 0, err
	}
	stored := table.Range(ctx, kind.Domain.Min, kind.Domain.Max, 0)
	if unordered != "" {
		stored = table.Rows(ctx, kind.Domain.Min, kind.Domain.Max, 0)
	}
	for row, err := range stored {
		if err != nil {
			return 0, err
		}
		if seen++; seen%1024 == 0 {
			bar.Add(1024)
		}
		i, ok := ties.Row(row.Tie)
		if !ok {
			continue
		}
		if i >= values.MaxGenerated {
			return rows, errOther
		}
		for uint64(len(there)) <= i/64 {
			there = append(there, 0)
		}
		if there[i/64]&(1<<(i%64)) != 0 {
			return rows, errOther // two values have one row of the input
		}
		there[i/64] |= 1 << (i % 64)
		sum += digestOf(i, uint64(row.Value))
		rows++
	}
	if rows == 0 {
		return 0, nil
	}
	found, n := 0, uint64(0)
	for x, err := range source.Values() {
		if err != nil {
			return rows, err
		}
		if n/64 < uint64(len(there)) && there[n/64]&(1<<(n%64)) != 0 {
			sum -= digestOf(n, uint64(x))
			found++
		}
		if n++; n == uint64(limit) || found == rows {
			break
		}
	}
	if found != rows || sum != 0 {
		return rows, errOther
	}
	return rows, nil
}
