# SPDX-License-Identifier: Apache-2.0
"""Forms, each with a token against cross-site requests."""

import flask_wtf
import wtforms
from wtforms import validators
from wtforms import widgets

from testbed import words

NO_KERNEL = ''


class _Checkboxes(wtforms.SelectMultipleField):
    widget = widgets.ListWidget(prefix_label=False)
    option_widget = widgets.CheckboxInput()


class Reserve(flask_wtf.FlaskForm):
    """A form to reserve machines."""

    machines = _Checkboxes('Machines')
    purpose = wtforms.StringField('Purpose', [
        validators.InputRequired('Say what for.'),
        validators.Length(max=words.PURPOSE_MAX)])
    hours = wtforms.IntegerField('Hours', default=8)
    kernel = wtforms.SelectField('Kernel', default=NO_KERNEL)

    def validate_machines(self, field):
        """Require a machine. A validator of the field would make browsers
        require each box."""
        if not field.data:
            raise validators.ValidationError('Choose one machine at least.')

    def offer(self, known):
        """Offer the inventory's machines and kernels."""
        self.machines.choices = [
            (machine.name,
             f'{machine.name} ({machine.role.replace("_", " ")})')
            for machine in known.machines.values()]
        self.kernel.choices = [
            (NO_KERNEL, 'what is on its disk'),
            *((name, name) for name in known.kernels)]
        _bound(self.hours, known)


class Renew(flask_wtf.FlaskForm):
    """A form to extend a lease."""

    hours = wtforms.IntegerField('Hours from now', default=8)

    def offer(self, known):
        """Apply the limits of the inventory."""
        _bound(self.hours, known)


class Button(flask_wtf.FlaskForm):
    """A form with only a button and the token."""


def _bound(field, known):
    field.validators = [
        validators.InputRequired('Say for how many hours.'),
        validators.NumberRange(1, known.longest_hours)]
    field.render_kw = {'min': '1', 'max': str(known.longest_hours)}
