// SPDX-License-Identifier: Apache-2.0
(function () {
  'use strict';

  /**
   * Has octavia-dashboard's wizard create all objects in one request, so that
   * a refusal reaches the user and nothing is left half made.
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
      'horizon.dashboard.project.lbaasv2.workflow.model', keepProtocols);
  }

  createInOneRequest.$inject = [
    '$delegate', 'horizon.framework.util.http.service'];

  function createInOneRequest($delegate, http) {
    $delegate.createLoadBalancer = function createLoadBalancer(spec) {
      // A rejection keeps the wizard open, which shows the API's message.
      return http.post('/api/octavia_xdp/loadbalancers/', spec);
    };
    return $delegate;
  }

  keepProtocols.$inject = ['$delegate'];

  function keepProtocols($delegate) {
    var initialize = $delegate.initialize;
    var protocols = $delegate.listenerProtocols.slice();

    $delegate.initialize = function () {
      // In a cloud without Barbican the wizard deletes the third protocol of
      // its list each time it is opened: TERMINATED_HTTPS, then HTTPS, and so
      // on.
      $delegate.listenerProtocols = protocols.slice();
      return initialize.apply($delegate, arguments);
    };
    return $delegate;
  }
})();
