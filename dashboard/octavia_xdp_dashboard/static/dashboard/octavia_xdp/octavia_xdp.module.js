// SPDX-License-Identifier: Apache-2.0
(function () {
  'use strict';

  /**
   * Fits octavia-dashboard's wizard to load balancers of the provider xdp: it
   * offers what the provider takes, and creates all objects in one request,
   * so that a refusal reaches the user and nothing is made by halves.
   */
  angular
    .module('horizon.dashboard.project.octavia_xdp', [
      'horizon.app.core.openstack-service-api',
      'horizon.dashboard.project.lbaasv2'
    ])
    .config(decorate);

  decorate.$inject = ['$provide'];

  function decorate($provide) {
    $provide.decorator(
      'horizon.app.core.openstack-service-api.lbaasv2', createInOneRequest);
    $provide.decorator(
      'horizon.dashboard.project.lbaasv2.workflow.model', offerWhatIsTaken);
  }

  createInOneRequest.$inject = [
    '$delegate',
    '$q',
    'horizon.dashboard.project.octavia_xdp.provider',
    'horizon.framework.util.http.service',
    'horizon.framework.util.i18n.gettext'
  ];

  function createInOneRequest($delegate, $q, provider, http, gettext) {
    var create = $delegate.createLoadBalancer;

    $delegate.createLoadBalancer = function createLoadBalancer(spec) {
      return provider.choices().then(function post(choices) {
        if (!provider.isOurs(spec.loadbalancer, choices)) {
          return create(spec);
        }
        return http.post('/api/octavia_xdp/loadbalancers/', spec)
          .catch(function refused(response) {
            // The wizard stays open and shows it: what is wrong can be mended.
            return $q.reject(
              gettext('Unable to create load balancer.') + ' ' +
              (response.data || ''));
          });
      });
    };
    return $delegate;
  }

  offerWhatIsTaken.$inject = [
    '$delegate',
    'horizon.dashboard.project.octavia_xdp.provider',
    'horizon.app.core.openstack-service-api.lbaasv2'
  ];

  function offerWhatIsTaken($delegate, provider, lbaasv2) {
    var model = $delegate;
    var initialize = model.initialize;
    var choices = null;
    // The load balancer to which something is added, if there is one already.
    var existing = null;

    var offered = {
      listenerProtocols: byName('protocols'),
      poolProtocols: byName('protocols'),
      methods: byValue('algorithms'),
      types: byValue('persistence_types'),
      monitorMethods: byName('monitor_methods')
    };

    angular.forEach(offered, function (filter, name) {
      var all = model[name];
      var original = all.slice();
      var taken = null;

      Object.defineProperty(model, name, {
        get: function () {
          // Until the wizard is ready it changes the lists themselves.
          if (model.initializing || !ours()) {
            return all;
          }
          // The same array each time: Angular compares by identity.
          if (!taken) {
            taken = all.filter(filter);
          }
          return taken;
        }
      });
      offered[name].reset = function () {
        // Opened a second time, the wizard would take one more protocol away.
        all.splice.apply(all, [0, all.length].concat(original));
        taken = null;
      };
    });

    model.initialize = function (resource, id, loadBalancerId) {
      existing = null;
      angular.forEach(offered, function (filter) { filter.reset(); });
      provider.choices().then(function (found) { choices = found; });
      if (loadBalancerId) {
        lbaasv2.getLoadBalancer(loadBalancerId).then(function (response) {
          existing = response && response.data;
        });
      }
      return initialize.apply(model, arguments);
    };
    return model;

    function ours() {
      // What exists keeps the values that it has.
      if (!choices || !model.spec || model.context.id) {
        return false;
      }
      return provider.isOurs(existing || model.spec.loadbalancer, choices);
    }

    function byName(key) {
      return function (name) { return choices[key].indexOf(name) !== -1; };
    }

    function byValue(key) {
      return function (one) {
        return choices[key].indexOf(one.value) !== -1;
      };
    }
  }
})();
