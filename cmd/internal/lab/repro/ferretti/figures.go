// Package ferretti repeats figures and tables of Ferretti, Colajanni and Marchetti (IEEE TPDS 2014): independent clients of an
// encrypted database, over an emulated network.
package ferretti

import (
	"slices"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

// Figures returns the figures and tables of the paper.
func Figures() []experiment.Figure {
	return slices.Concat(throughputFigures, commandFigures, orderTimeFigures)
}
