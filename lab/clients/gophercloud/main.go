// SPDX-License-Identifier: Apache-2.0

// Command gophercloud creates, updates and deletes a load balancer with the
// library of that name, which Terraform's provider and Kubernetes' cloud
// provider for OpenStack also use. The user is taken from OS_*.
//
//	gophercloud create NAME SUBNET ADDRESS...
//	gophercloud list
//	gophercloud update ID
//	gophercloud delete ID
//
// create, list and update print a JSON document. The exit status is 1 after an
// error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
)

const (
	bound = 3 * time.Minute
	pause = 300 * time.Millisecond
)

func main() {
	// A load balancer allows one change at a time, and each may take long.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gophercloud:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, words []string) error {
	client, err := connect(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(words) >= 4 && words[0] == "create":
		return create(ctx, client, words[1], words[2], words[3:])
	case len(words) == 1 && words[0] == "list":
		return list(ctx, client)
	case len(words) == 2 && words[0] == "update":
		return update(ctx, client, words[1])
	case len(words) == 2 && words[0] == "delete":
		return remove(ctx, client, words[1])
	}
	return fmt.Errorf("unknown arguments %q: create NAME SUBNET ADDRESS..., "+
		"list, update ID, delete ID", words)
}

func connect(ctx context.Context) (*gophercloud.ServiceClient, error) {
	options, err := openstack.AuthOptionsFromEnv()
	if err != nil {
		return nil, err
	}
	provider, err := openstack.AuthenticatedClient(ctx, options)
	if err != nil {
		return nil, err
	}
	return openstack.NewLoadBalancerV2(provider, gophercloud.EndpointOpts{
		Region: os.Getenv("OS_REGION_NAME"),
	})
}

// settle waits until the last change of a load balancer is done.
func settle(ctx context.Context, client *gophercloud.ServiceClient,
	id string) (*loadbalancers.LoadBalancer, error) {
	for {
		found, err := loadbalancers.Get(ctx, client, id).Extract()
		if err != nil {
			return nil, err
		}
		switch found.ProvisioningStatus {
		case "ACTIVE":
			return found, nil
		case "ERROR":
			return nil, fmt.Errorf("load balancer %s is in ERROR", id)
		}
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

func show(document any) error {
	return json.NewEncoder(os.Stdout).Encode(document)
}

func create(ctx context.Context, client *gophercloud.ServiceClient,
	name, subnet string, addresses []string) error {
	balancer, err := loadbalancers.Create(ctx, client,
		loadbalancers.CreateOpts{
			Name: name, Provider: "xdp", VipSubnetID: subnet,
		}).Extract()
	if err != nil {
		return err
	}
	if _, err = settle(ctx, client, balancer.ID); err != nil {
		return err
	}
	listener, err := listeners.Create(ctx, client, listeners.CreateOpts{
		Name: name, LoadbalancerID: balancer.ID,
		Protocol: listeners.ProtocolTCP, ProtocolPort: 80,
	}).Extract()
	if err != nil {
		return err
	}
	if _, err = settle(ctx, client, balancer.ID); err != nil {
		return err
	}
	pool, err := pools.Create(ctx, client, pools.CreateOpts{
		Name: name, ListenerID: listener.ID, Protocol: pools.ProtocolTCP,
		LBMethod: pools.LBMethodSourceIpPort,
	}).Extract()
	if err != nil {
		return err
	}
	if _, err = settle(ctx, client, balancer.ID); err != nil {
		return err
	}
	for number, address := range addresses {
		_, err = pools.CreateMember(ctx, client, pool.ID,
			pools.CreateMemberOpts{
				Name:    fmt.Sprintf("%s-%d", name, number),
				Address: address, ProtocolPort: 80,
			}).Extract()
		if err != nil {
			return err
		}
		if _, err = settle(ctx, client, balancer.ID); err != nil {
			return err
		}
	}
	_, err = monitors.Create(ctx, client, monitors.CreateOpts{
		Name: name, PoolID: pool.ID, Type: monitors.TypeHTTP, Delay: 2,
		Timeout: 1, MaxRetries: 2, URLPath: "/", ExpectedCodes: "200",
	}).Extract()
	if err != nil {
		return err
	}
	found, err := settle(ctx, client, balancer.ID)
	if err != nil {
		return err
	}
	return show(found)
}

func list(ctx context.Context, client *gophercloud.ServiceClient) error {
	pages, err := loadbalancers.List(client,
		loadbalancers.ListOpts{Provider: "xdp"}).AllPages(ctx)
	if err != nil {
		return err
	}
	found, err := loadbalancers.ExtractLoadBalancers(pages)
	if err != nil {
		return err
	}
	if found == nil {
		found = []loadbalancers.LoadBalancer{}
	}
	return show(found)
}

// update changes an object of each kind.
func update(ctx context.Context, client *gophercloud.ServiceClient,
	id string) error {
	found, err := loadbalancers.Get(ctx, client, id).Extract()
	if err != nil {
		return err
	}
	if len(found.Listeners) != 1 || len(found.Pools) != 1 {
		return fmt.Errorf("load balancer %s is none of this program's", id)
	}
	description, weight, delay := "changed", 5, 3
	cidrs := []string{"198.18.0.0/15"}
	pool, err := pools.Get(ctx, client, found.Pools[0].ID).Extract()
	if err != nil {
		return err
	}
	changes := []func() error{
		func() error {
			return loadbalancers.Update(ctx, client, id,
				loadbalancers.UpdateOpts{Description: &description}).Err
		},
		func() error {
			return listeners.Update(ctx, client, found.Listeners[0].ID,
				listeners.UpdateOpts{AllowedCIDRs: &cidrs}).Err
		},
		func() error {
			return pools.Update(ctx, client, pool.ID, pools.UpdateOpts{
				LBMethod: pools.LBMethodSourceIp}).Err
		},
		func() error {
			return pools.UpdateMember(ctx, client, pool.ID,
				pool.Members[0].ID,
				pools.UpdateMemberOpts{Weight: &weight}).Err
		},
		func() error {
			return monitors.Update(ctx, client, pool.MonitorID,
				monitors.UpdateOpts{Delay: delay}).Err
		},
	}
	for _, change := range changes {
		if err := change(); err != nil {
			return err
		}
		if found, err = settle(ctx, client, id); err != nil {
			return err
		}
	}
	return show(found)
}

func remove(ctx context.Context, client *gophercloud.ServiceClient,
	id string) error {
	if _, err := settle(ctx, client, id); err != nil {
		return err
	}
	err := loadbalancers.Delete(ctx, client, id,
		loadbalancers.DeleteOpts{Cascade: true}).Err
	if err != nil {
		return err
	}
	for {
		found, err := loadbalancers.Get(ctx, client, id).Extract()
		if gophercloud.ResponseCodeIs(err, 404) {
			return nil
		}
		if err != nil {
			return err
		}
		if found.ProvisioningStatus == "DELETED" {
			return nil
		}
		if found.ProvisioningStatus == "ERROR" {
			return fmt.Errorf("load balancer %s is in ERROR", id)
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
}
