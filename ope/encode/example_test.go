package encode_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math/big"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// A column of temperatures. The server compares the ciphertexts bytewise, as it compares any blob.
func ExampleColumn() {
	ctx := context.Background()
	celsius := encode.Float[float64]()
	scheme, err := boldyreva.New(ope.GenerateKey(), celsius.Domain(), nil)
	if err != nil {
		log.Fatal(err)
	}
	temperature, err := encode.NewColumn(scheme, celsius)
	if err != nil {
		log.Fatal(err)
	}

	var stored []ope.Ciphertext
	for _, v := range []float64{-3.5, 18.5, 21.25, 30} {
		c, err := temperature.Encrypt(ctx, v)
		if err != nil {
			log.Fatal(err)
		}
		stored = append(stored, c)
	}

	// SELECT ... WHERE temperature >= :Start AND temperature < :End
	intervals, err := temperature.Between(ctx, 18, 25)
	if err != nil {
		log.Fatal(err)
	}
	for _, iv := range intervals {
		for _, c := range stored {
			if bytes.Compare(iv.Start, c) <= 0 && bytes.Compare(c, iv.End) < 0 {
				v, err := temperature.Decrypt(ctx, c)
				if err != nil {
					log.Fatal(err)
				}
				fmt.Println(v)
			}
		}
	}
	// Output:
	// 18.5
	// 21.25
}

// A database that compares numbers only, such as a column of type BIGINT. Ciphertexts of 63 bits leave the sign free, so that
// their order is that of the numbers. An interval with nothing above it ends with one byte more: it has no upper bound.
func ExampleColumn_bigint() {
	ctx := context.Background()
	codec, err := encode.Integer[int32]().Within(0, 1_000_000)
	if err != nil {
		log.Fatal(err)
	}
	scheme, err := boldyreva.New(ope.GenerateKey(), codec.Domain(), &boldyreva.Options{RangeBits: 63})
	if err != nil {
		log.Fatal(err)
	}
	grams, err := encode.NewColumn(scheme, codec)
	if err != nil {
		log.Fatal(err)
	}
	number := func(c ope.Ciphertext) int64 { return int64(binary.BigEndian.Uint64(c)) }

	var stored []int64
	for _, v := range []int32{250, 900, 1_000_000} {
		c, err := grams.Encrypt(ctx, v)
		if err != nil {
			log.Fatal(err)
		}
		stored = append(stored, number(c))
	}

	// SELECT ... WHERE grams >= :Start AND grams < :End, or without the second condition
	intervals, err := grams.AtLeast(ctx, 500)
	if err != nil {
		log.Fatal(err)
	}
	for _, iv := range intervals {
		unbounded := len(iv.End) > len(iv.Start)
		for _, n := range stored {
			if number(iv.Start) <= n && (unbounded || n < number(iv.End)) {
				fmt.Println(grams.Decrypt(ctx, binary.BigEndian.AppendUint64(nil, uint64(n))))
			}
		}
	}
	// Output:
	// 900 <nil>
	// 1000000 <nil>
}

// Instants of one year at a resolution of a second: a narrower domain has shorter ciphertexts.
func ExampleExact_Within() {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	codec, err := encode.Time(time.Second).Within(year(2026), year(2027))
	if err != nil {
		log.Fatal(err)
	}
	scheme, err := boldyreva.New(ope.GenerateKey(), codec.Domain(), nil)
	if err != nil {
		log.Fatal(err)
	}
	created, err := encode.NewColumn(scheme, codec)
	if err != nil {
		log.Fatal(err)
	}
	c, err := created.Encrypt(context.Background(), year(2026).Add(36*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(c), "bytes")
	_, err = created.Encrypt(context.Background(), year(2031))
	fmt.Println(err)
	// Output:
	// 7 bytes
	// ope: value outside the domain: need 2026-01-01T00:00:00Z to 2027-01-01T00:00:00Z
}

// A prefix codec finds at least what is asked for. The whole value is sealed beside the
// ciphertext, and the caller checks it.
func ExamplePrefixColumn() {
	ctx := context.Background()
	codec := encode.Bytes[string](4, "")
	scheme, err := boldyreva.New(ope.GenerateKey(), codec.Domain(), nil)
	if err != nil {
		log.Fatal(err)
	}
	names, err := encode.NewPrefixColumn(scheme, codec)
	if err != nil {
		log.Fatal(err)
	}
	intervals, err := names.Between(ctx, "Schmidt", "Schmitz")
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"Schmid", "Schmidt", "Schmitt", "Schubert", "Seidel"} {
		c, err := names.Encrypt(ctx, name)
		if err != nil {
			log.Fatal(err)
		}
		iv := intervals[0]
		if bytes.Compare(iv.Start, c) <= 0 && bytes.Compare(c, iv.End) < 0 {
			fmt.Println(name, "is a candidate; wanted:", "Schmidt" <= name && name <= "Schmitz")
		}
	}
	// Output:
	// Schmid is a candidate; wanted: false
	// Schmidt is a candidate; wanted: true
	// Schmitt is a candidate; wanted: true
}

// Prices whose digits after thousands are dropped: amounts that lie close together get one ciphertext, so that the
// database learns less. A query finds the candidates, and the exact amounts are kept sealed beside them.
func ExampleDecimalPrefix() {
	amount := func(units int64) encode.Decimal { return encode.Decimal{Unscaled: big.NewInt(units)} }
	thousands, err := encode.DecimalPrefix(-3).Within(amount(0), amount(10_000_000))
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range []int64{1_999, 2_000, 2_700} {
		code, err := thousands.Encode(amount(v))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(v, code)
	}
	// Output:
	// 1999 1
	// 2000 2
	// 2700 2
}
