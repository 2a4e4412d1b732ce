// SPDX-License-Identifier: Apache-2.0
(function () {
  'use strict';

  angular
    .module('horizon.dashboard.project.octavia_xdp')
    .factory('horizon.dashboard.project.octavia_xdp.provider', provider);

  provider.$inject = ['$q', 'horizon.framework.util.http.service'];

  /**
   * Which load balancers are of the provider xdp, and what it takes.
   */
  function provider($q, http) {
    var promise = null;

    return {choices: choices, isOurs: isOurs};

    /**
     * @returns {promise} of the choices (choices.py), or of null if they can't
     * be had: the wizard then works as if this plugin were not there.
     */
    function choices() {
      promise = promise || http.get('/api/octavia_xdp/choices/').then(
        function (response) { return response.data; },
        function () {
          promise = null;
          return null;
        });
      return promise;
    }

    /**
     * @param {object} loadBalancer as the API or the wizard has it, whose
     * provider is a name, an object with a name, or missing.
     */
    function isOurs(loadBalancer, choices) {
      var name;

      if (!choices || !loadBalancer) {
        return false;
      }
      name = loadBalancer.provider;
      if (angular.isObject(name)) {
        name = name.name;
      }
      return name ? choices.providers.indexOf(name) !== -1
        : choices.is_default_provider;
    }
  }
})();
