package rowload

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/progress"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/store"
)

// A Load puts the rows of an input into a table.
type Load struct {
	Input *tabular.Input
	Names *Names
	Key   []string // the names of the key parts
	Bar   progress.Reporter

	SkipBad  bool
	MaxBad   values.MaxBad
	LastWins bool // of rows with one key the last one is put

	Batch, Writers int

	Bad     Bad
	Rows    int // that were read, bad ones included
	Rewrote int // rows that have the key of an earlier one
	Map     *Mapping

	tag     uint64
	goesOn  bool   // it was interrupted
	digits  string // of the name that it goes on with
	checked []byte // the digest of an input that was checked
	sum     hash.Hash
}

// ErrChanged is returned where the input is no longer what it was when it was checked.
var ErrChanged = tabular.ErrChanged

// ErrRefused is wrapped by the error of a row that only the table could judge, such as one that is too large.
var ErrRefused = errors.New("the table refuses a row of the input")

// ErrOther is wrapped by the error of a row that is not what an earlier run of the load has put.
var ErrOther = errors.New("the load has put a row with other values before")

// Check reads the whole input, and meets every error that can be found without writing.
func (l *Load) Check(ctx context.Context) error {
	l.Bar.Start("checking", -1)
	defer l.Bar.Done()
	var keys repeated
	defer func() { _ = keys.close() }() // nothing is lost
	in, err := l.open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was read
	digests := newDigester(l.Key)
	distinct := l.Map.Distinct()
	for {
		came, err := l.next(ctx, in)
		if err == nil && distinct {
			err = l.Map.Check(came)
		} else if err == nil {
			var row store.Row
			if row, err = l.Map.Row(came); err == nil {
				err = keys.add(digests.of(row), l.Rows)
				came = nil // it is not a bad row
			}
		}
		if err != nil && came != nil {
			err = l.Bad.Add(came, err)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if l.Rows%1024 == 0 {
			l.Bar.Add(1024)
		}
	}
	l.checked = l.sum.Sum(nil)
	if allowed := l.allowed(); l.Bad.Rows > allowed {
		return l.Bad.tooMany(l.Rows, allowed, l.SkipBad)
	}
	if l.noneIsGood() {
		return fmt.Errorf("%w: %w", tabular.ErrInput, l.allBad())
	}
	if err := keys.count(); err != nil {
		return err
	}
	l.Rewrote = keys.rows
	if l.Rewrote > 0 && !l.LastWins {
		return l.repeatedKeys(keys.first, keys.second)
	}
	return nil
}

func (l *Load) allowed() int {
	if !l.SkipBad {
		return 0
	}
	return l.MaxBad.Of(l.Rows)
}

// noneIsGood reports whether all rows are bad, where nobody has said how many may be. The share that is allowed of a few
// rows lets a file pass that has nothing for the table.
func (l *Load) noneIsGood() bool {
	return l.SkipBad && l.MaxBad.Default() && l.Rows > 0 && l.Bad.Rows == l.Rows
}

// allBad is the error of an input without a good row.
func (l *Load) allBad() error {
	return fmt.Errorf("no row is good, of %s: %s; --max-bad says how many may be bad, as --max-bad 100%% does of all", show.Counted(l.Rows, "row"), &l.Bad)
}

// keepsAll ends errors about rows with one key.
const keepsAll = "and a table has one row for each key: --last-wins puts the last of them; a table with a tie-breaker (encryption: tie) keeps all"

func (l *Load) repeatedKeys(first, second uint64) error {
	return fmt.Errorf("%w: %d of %d rows %s the key of an earlier one, as row %d has that of row %d, %s", tabular.ErrInput, l.Rewrote, l.Rows, show.Verb(l.Rewrote, "has", "have"), second, first, keepsAll)
}

// repeatedKey is the error about the row that was read last, and was not written.
func (l *Load) repeatedKey(first int) error {
	return fmt.Errorf("%w: row %d has the key of row %d, %s; nothing of the batch of row %[2]d was written", tabular.ErrInput, l.Rows, first, keepsAll)
}

func (l *Load) open() (tabular.Reader, error) {
	l.sum = sha256.New()
	in, err := l.Input.Open(l.Names.Fields(), l.Names.ignored, l.sum)
	if err != nil {
		return nil, err
	}
	if l.Map == nil {
		l.Map, err = l.Names.Map(in.Fields(), in.Unnamed(), l.Input.Header())
	} else if !slices.Equal(l.Map.Fields, in.Fields()) {
		err = ErrChanged
	}
	if err != nil {
		_ = in.Close() // it was not read
		return nil, err
	}
	l.Map.ties = loads.TiesOf("rangecrypt/1 ties", l.tag)
	return in, nil
}

// read returns the next row as it came, and as the table has it. Where it came, the error is what is wrong with it.
func (l *Load) read(ctx context.Context, in tabular.Reader) (*tabular.Row, store.Row, error) {
	came, err := l.next(ctx, in)
	if err != nil {
		return came, nil, err
	}
	row, err := l.Map.Row(came)
	return came, row, err
}

// next returns the next row as it came. Where it came, the error is what is wrong with it.
func (l *Load) next(ctx context.Context, in tabular.Reader) (*tabular.Row, error) {
	if l.Rows%1024 == 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	came, err := in.Next()
	var bad *tabular.RowError
	if errors.As(err, &bad) {
		l.Rows++
		if bad.Fatal {
			return nil, fmt.Errorf("%w: %s: %w", tabular.ErrInput, l.Input.Name(), bad)
		}
		return &bad.Row, bad.Err
	}
	if err != nil {
		return nil, err
	}
	l.Rows++
	return came, nil
}

// Begin takes the name of a load to go on with, or "" for a new one, before the input is read. It returns the first part
// of the name. An error is exit.ErrUsage.
func (l *Load) Begin(name string) (first string, err error) {
	first, digits, checked := strings.Cut(name, "-")
	if name == "" {
		first, checked = fmt.Sprintf("%016x", loads.NewName()), !l.Input.Stream()
	}
	if l.tag, err = strconv.ParseUint(first, 16, 64); err != nil || len(first) != 16 {
		return "", exit.Usagef("--load %q is no name of a load: these have 16 hexadecimal digits and, unless they are of the standard input, a hyphen and 10 more", name)
	}
	switch {
	case checked && l.Input.Stream():
		return "", exit.Usagef("load %s is of a file: name it with --input", name)
	case !checked && !l.Input.Stream():
		return "", exit.Usagef("load %s is of the standard input: give --input -, and the same bytes as at first", name)
	}
	l.goesOn, l.digits = name != "", digits
	return first, nil
}

// Replaces reports whether the load goes on, and rows that are there already may be those of others: their keys come
// from the input, and are not the load's own.
func (l *Load) Replaces() bool { return l.goesOn && l.Map != nil && !l.Map.Distinct() }

// Name returns the name of a load that has begun. Of one whose input was checked it ends with digits that depend on the
// input, on how it is read, and on what is given as said and as the secret of the table; to go on with another is
// exit.ErrUsage.
func (l *Load) Name(said string, secret []byte) (string, error) {
	name := fmt.Sprintf("%016x", l.tag)
	if l.Input.Stream() {
		return name, nil
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(binary.BigEndian.AppendUint64([]byte("rangecrypt/1 load"), l.tag))
	mac.Write(l.checked)
	mac.Write([]byte(l.Input.Said() + "\x00" + said))
	own := hex.EncodeToString(mac.Sum(nil)[:5])
	if l.goesOn && own != l.digits {
		return "", exit.Usagef("load %s-%s is not of this input: give the same file, table, names of columns and flags as at first, or leave --load out for a load of its own; "+
			"a column that was renamed since gets its former name by 'rangecrypt table alter NAME --rename new=old' until the load is done; "+
			"if 'rangecrypt rekey' or 'rangecrypt migrate' has copied the table since, nobody can check the file: give the same bytes with --input - --load %s",
			name, l.digits, name)
	}
	return name + "-" + own, nil
}
