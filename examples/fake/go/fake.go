// Package fake starts Ottla's test broker and controls it over HTTP.
package fake

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
)

// Broker is a running test broker.
type Broker struct {
	BootstrapServers string `json:"bootstrap_servers"`
	Control          string `json:"control"`
	SchemaRegistry   string `json:"schema_registry"`
	command          *exec.Cmd
	input            io.Closer
}

// Start runs `ottla fake` with these options.
func Start(options ...string) (*Broker, error) {
	command := exec.Command("ottla", append([]string{"fake", "--with-parent"}, options...)...)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("ottla fake did not start: %w", err)
	}
	broker := &Broker{command: command, input: input}
	return broker, json.Unmarshal(line, broker)
}

// Call sends a request to the control API and decodes its answer.
func (b *Broker) Call(method, path string, body, answer any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequest(method, b.Control+path, &content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		var refused struct{ Message string }
		json.NewDecoder(response.Body).Decode(&refused)
		return fmt.Errorf("%s %s: %s", method, path, refused.Message)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// Stop ends the broker.
func (b *Broker) Stop() error {
	b.input.Close()
	return b.command.Wait()
}
