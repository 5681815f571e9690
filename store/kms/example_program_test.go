package kms_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A program that may take long, because somebody has to touch a hardware key. docs/operations.md has
// a program of this kind that uses openssl.
func ExampleNewProgram() {
	keeper, err := kms.NewProgram([]string{"/opt/kms/bin/keeper", "--slot", "9c"}, &kms.ProgramOptions{Timeout: 3 * time.Minute})
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Println(err)
		return
	}
	db := drivertest.NewMemory() // or cassandra.Open, hbase.Open, pebble.Open
	defer db.Close()
	_, err = store.Open(context.Background(), db, keeper, nil)
	fmt.Println("opened:", err == nil, "worth repeating:", store.Retryable(err))
	// Output:
	// kms: there is no program /opt/kms/bin/keeper: file does not exist
}
