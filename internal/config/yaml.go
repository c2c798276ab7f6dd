package config

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// CheckYAML gives an error for what is no YAML; any number of documents may
// follow each other.
func CheckYAML(data []byte) error {
	in := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		if err := in.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
