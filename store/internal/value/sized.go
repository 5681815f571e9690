package value

import (
	"encoding/binary"
	"errors"
)

// ErrCutShort is returned for bytes that end too early.
var ErrCutShort = errors.New("cut short")

// AppendSized appends b with its length before it.
func AppendSized(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// CutSized undoes AppendSized and returns what follows.
func CutSized(b []byte) (sized, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, ErrCutShort
	}
	return b[size : size+int(n)], b[size+int(n):], nil
}
