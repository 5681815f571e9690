package tabular

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/uncompressed"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"
)

// A labelled codec compresses nothing, and says that it is another one.
type labelled struct {
	uncompressed.Codec
	codec format.CompressionCodec
}

func (l *labelled) CompressionCodec() format.CompressionCodec { return l.codec }

// compressedFile writes a column id without compression, and a column note with one. A version is that of pages.
func compressedFile(t *testing.T, codec compress.Codec, version int, notes []string) string {
	path := filepath.Join(t.TempDir(), "t.parquet")
	file, err := os.Create(path)
	require.NoError(t, err)
	id, note := parquet.Leaf(parquet.Int64Type), parquet.Compressed(parquet.Encoded(parquet.String(), &parquet.Plain), codec)
	group := ordered{parquet.Group{"id": id, "note": note}, []parquet.Field{field{id, "id"}, field{note, "note"}}}
	w := parquet.NewGenericWriter[any](file, parquet.NewSchema("t", group), parquet.DataPageVersion(version), parquet.PageBufferSize(64<<10))
	for i, text := range notes {
		_, err := w.WriteRows([]parquet.Row{{parquet.Int64Value(int64(i)).Level(0, 0, 0), parquet.ByteArrayValue([]byte(text)).Level(0, 0, 1)}})
		require.NoError(t, err)
		if i == len(notes)/2 {
			require.NoError(t, w.Flush())
		}
	}
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())
	return path
}

// notes returns texts, which compress well or not at all.
func notes(compressible bool) (texts []string) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		text := make([]byte, 40)
		for j := range text {
			if text[j] = byte(i / 1000); !compressible {
				text[j] = byte(random.Uint32())
			}
		}
		texts = append(texts, string(text))
	}
	return texts
}

// What is compressed in a way that is read comes as it was, however well its pages compress.
func TestCompressionsRead(t *testing.T) {
	of := map[format.CompressionCodec]compress.Codec{
		format.Uncompressed: &parquet.Uncompressed, format.Snappy: &parquet.Snappy, format.Gzip: &parquet.Gzip, format.Brotli: &parquet.Brotli, format.Zstd: &parquet.Zstd,
	}
	for _, codec := range unpacks {
		for _, compressible := range []bool{true, false} {
			for _, version := range []int{1, 2} {
				t.Run(codec.String(), func(t *testing.T) {
					want := notes(compressible)
					r, err := (&Input{file: compressedFile(t, of[codec], version, want)}).Open(nil, nil, nil)
					require.NoError(t, err)
					defer r.Close()
					for i, text := range want {
						row, err := r.Next()
						require.NoError(t, err)
						require.Equal(t, []any{int64(i), text}, []any{row.Cells[0].Value, row.Cells[1].Value})
					}
					_, err = r.Next()
					require.Equal(t, io.EOF, err)
				})
			}
		}
	}
}

// Any other compression is refused, unless the field is left out: what the library makes of such pages may be no value of the file.
func TestCompressionsRefused(t *testing.T) {
	for what, codec := range map[string]compress.Codec{
		"LZ4_RAW": &parquet.Lz4Raw,
		"LZ4":     &labelled{codec: format.Lz4},
		"LZO":     &labelled{codec: format.LZO},
		"a compression that is not known, number 47": &labelled{codec: 47},
	} {
		t.Run(what, func(t *testing.T) {
			path := compressedFile(t, codec, 1, notes(true))
			_, err := (&Input{file: path}).Open(nil, nil, nil)
			require.ErrorContains(t, err, "field note: it is compressed with "+what+", which is not read: write the file again with zstd or snappy, or leave it out with --ignore note")
			r, err := (&Input{file: path}).Open(nil, []string{"note"}, nil)
			require.NoError(t, err)
			defer r.Close()
			for i := range 4000 {
				row, err := r.Next()
				require.NoError(t, err)
				require.Equal(t, []any{int64(i), unread{}}, []any{row.Cells[0].Value, row.Cells[1].Value})
			}
		})
	}
}

// Numbers of 16 bits are those that they are in 32. PyArrow wrote the file.
func TestHalves(t *testing.T) {
	r, err := (&Input{file: "testdata/half.parquet"}).Open(nil, nil, nil)
	require.NoError(t, err)
	defer r.Close()
	for _, want := range []float64{0, math.Copysign(0, -1), 1, -2.5, 65504, 0x1p-24, 0x1p-14 - 0x1p-24, math.Inf(1), math.Inf(-1), math.NaN(), 0x1.998p-4} {
		row, err := r.Next()
		require.NoError(t, err)
		got := row.Cells[0].Value.(float32)
		if math.IsNaN(want) {
			require.True(t, got != got)
			continue
		}
		require.Equal(t, math.Float32bits(float32(want)), math.Float32bits(got), "%v, not %v", want, got)
	}
	_, err = r.Next()
	require.Equal(t, io.EOF, err)
}

// Text may begin as a file of another format does, since columns and people have such names.
func TestTextThatBeginsAsOtherFormats(t *testing.T) {
	open := func(text string) (Reader, error) {
		path := filepath.Join(t.TempDir(), "rows.csv")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return (&Input{file: path}).Open(nil, nil, nil)
	}
	for _, name := range []string{"PAR1", "PAR10", "BZhou", "BZh9"} {
		r, err := open(name + ",note\n1,a\n")
		require.NoError(t, err, name)
		require.Equal(t, []string{name, "note"}, r.Fields())
		require.NoError(t, r.Close())
	}
	for text, says := range map[string]string{
		"PAR1\x15\x04\x15\x10":             "it is in Parquet",
		"BZh91AY&SY\x8f\x01":               "it is compressed in a way that is not read",
		"BZh9\x17rE8P\x90\x00\x00\x00\x00": "it is compressed in a way that is not read",
	} {
		_, err := open(text)
		require.ErrorContains(t, err, says)
	}
	for name, says := range map[string]string{"r.zip": "is unpacked first", "r.parquet.gz": "leave .gz out of the name of an output, and unpack an input first"} {
		_, err := shapeOf(name, standardInput, "", "", "")
		require.ErrorContains(t, err, says)
	}
	_, err := shapeOf("", standardInput, "", "", "")
	require.ErrorContains(t, err, "csv or jsonl (JSON lines); Parquet is read from files only")
	_, err = shapeOf("", "the standard output", "", "", "")
	require.ErrorContains(t, err, "or parquet")
}
