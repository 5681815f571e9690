// Package waage repeats figures 1 to 4 and tables of Waage, Homann and Wiese (SECRYPT 2016): what three order-preserving schemes
// cost in Cassandra and HBase.
package waage

import (
	"slices"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

// Figures returns the figures and tables of the paper.
func Figures() []experiment.Figure {
	return slices.Concat(samplingFigures, insertFigures, decryptFigures, lambdaFigures, criteriaFigures)
}
