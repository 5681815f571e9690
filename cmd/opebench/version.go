package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
)

func newVersion(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print versions and scheme IDs",
		Long: `Version prints the version of the module, that of Go, and the IDs of the schemes for
32-bit and 64-bit integers. Data is readable as long as its scheme's ID is the same.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return version(e) },
	}
}

func version(e *env) error {
	var b strings.Builder
	fmt.Fprintf(&b, "opebench %s, %s %s/%s\n", report.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	names, _ := bench.Schemes()
	for _, name := range names {
		for _, kind := range []string{"int32", "int64"} {
			k, err := bench.KindByName(kind)
			if err != nil {
				return err
			}
			id, err := bench.SchemeID(name, k)
			if errors.Is(err, bench.ErrUsage) {
				continue // there is none for such values
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%-16s  %s  %s\n", name, kind, id)
		}
	}
	_, err := fmt.Fprint(e.stdout, b.String())
	return err
}
