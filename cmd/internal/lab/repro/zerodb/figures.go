// Package zerodb repeats figures and tables of Mitterer, von Maltitz, Niedermayer and Carle (W-P2DS 2018): statements whose client
// walks encrypted trees.
package zerodb

import (
	"slices"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

// Figures returns the figures and tables of the paper.
func Figures() []experiment.Figure { return slices.Concat(walkFigures, mixFigures) }
