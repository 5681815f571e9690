package gate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What a server does not take for a reason that an administrator can change has that reason, and stays what it is.
func TestExplained(t *testing.T) {
	const exception = "HBase Java exception org.apache.hadoop.hbase.DoNotRetryIOException: "
	for _, c := range []struct {
		text string
		kind error
		todo string
	}{
		{exception + "region is read only", driver.ErrUnauthorised, "alter it back in the shell of HBase"},
		{"HBase Java exception org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: Column family c does not exist", driver.ErrLayout, Lost},
		{exception + "Cell with size 5140 exceeds limit of 2000 bytes", nil, "hbase.server.keyvalue.maxsize"},
	} {
		err := errors.New(c.text)
		explained := Explained(err)
		require.ErrorIs(t, explained, err)
		require.ErrorContains(t, explained, c.todo)
		if c.kind != nil {
			require.ErrorIs(t, explained, c.kind)
		}
	}
	other := errors.New(exception + "something else")
	require.Equal(t, other, Explained(other))
}
