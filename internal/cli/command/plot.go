package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
)

// A PlotFile is the file of a plot or a page, made before what is shown is measured: it must not fail
// after it.
type PlotFile struct {
	file *outfile.File
	what string
	Name string
}

// CheckPlot refuses a name of a plot's file that says no format. No name is none.
func CheckPlot(name string) error {
	if name == "" {
		return nil
	}
	if err := draw.CheckName(name); err != nil {
		return exit.Usagef("--plot: %v", err)
	}
	return nil
}

// CreatePlot returns nil for no name.
func CreatePlot(name string) (*PlotFile, error) {
	if name == "" {
		return nil, nil
	}
	return createFile("plot", name, true)
}

// CreatePage is [CreatePlot] of a page of figures. Unless it may be replaced, a file that exists is [outfile.ErrExists].
func CreatePage(name string, replace bool) (*PlotFile, error) {
	return createFile("page", name, replace)
}

func createFile(what, name string, replace bool) (*PlotFile, error) {
	f, err := outfile.Create(name, replace)
	if err != nil {
		return nil, fmt.Errorf("write the %s: %w", what, err)
	}
	return &PlotFile{f, what, name}, nil
}

// Save writes the picture and gives the file its name. It takes what drawing returns.
func (p *PlotFile) Save(picture []byte, err error) error {
	if err != nil {
		return fmt.Errorf("draw the %s: %w", p.what, err)
	}
	_, err = p.file.Write(picture)
	if err == nil && p.file.Regular() {
		err = p.file.Chmod(0o644) // a picture is for everyone
	}
	if err == nil {
		err = p.file.Commit()
	}
	if err != nil {
		return fmt.Errorf("write the %s %s: %w", p.what, p.Name, withoutName(err))
	}
	return nil
}

// Discard removes a file that was not saved.
func (p *PlotFile) Discard() {
	if p != nil {
		_ = p.file.Discard() // of another error, more is known
	}
}

// withoutName returns an error without the name of the temporary file, which says nothing to
// anybody.
func withoutName(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
